//! The wire format of protobuf: a message is a sequence of numbered fields.

/// Why bytes are no message. The words are those of Go's generated code.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A field goes on after the end.
    #[error("unexpected EOF")]
    Short,
    /// A number of more than 64 bits.
    #[error("proto: integer overflow")]
    Overflow,
    /// No field has this number or this form.
    #[error("proto: illegal tag {number} (wire type {wire})")]
    Tag {
        /// Number of the field.
        number: u64,
        /// Its wire type.
        wire: u8,
    },
}

/// The value of a field, as it is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wire<'a> {
    Varint(u64),
    Fixed64(u64),
    Bytes(&'a [u8]),
    Fixed32,
}

impl Wire<'_> {
    /// The number that stands for this form.
    pub const fn form(self) -> u8 {
        match self {
            Self::Varint(_) => 0,
            Self::Fixed64(_) => 1,
            Self::Bytes(_) => 2,
            Self::Fixed32 => 5,
        }
    }
}

/// Reads one message, field by field.
#[derive(Clone, Debug)]
pub(super) struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    pub const fn new(bytes: &'a [u8]) -> Self {
        Self { rest: bytes }
    }

    /// The next field; `None` at the end.
    pub fn field(&mut self) -> Result<Option<(u64, Wire<'a>)>, WireError> {
        if self.rest.is_empty() {
            return Ok(None);
        }
        let tag = self.varint()?;
        let (number, form) = (tag >> 3, u8::try_from(tag & 7).unwrap_or_default());
        let value = match form {
            _ if number == 0 => return Err(WireError::Tag { number, wire: form }),
            0 => Wire::Varint(self.varint()?),
            1 => Wire::Fixed64(u64::from_le_bytes(self.array()?)),
            2 => {
                let length = usize::try_from(self.varint()?).map_err(|_| WireError::Short)?;
                Wire::Bytes(self.take(length)?)
            }
            5 => {
                self.take(4)?;
                Wire::Fixed32
            }
            // Groups went out of use before Kubernetes began.
            _ => return Err(WireError::Tag { number, wire: form }),
        };
        Ok(Some((number, value)))
    }

    fn varint(&mut self) -> Result<u64, WireError> {
        let mut value = 0;
        for shift in (0..64).step_by(7) {
            let [byte] = self.array()?;
            value |= u64::from(byte & 0x7f) << shift;
            if byte < 0x80 {
                return Ok(value);
            }
        }
        Err(WireError::Overflow)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], WireError> {
        let (first, rest) = self.rest.split_first_chunk().ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(*first)
    }

    fn take(&mut self, length: usize) -> Result<&'a [u8], WireError> {
        let (first, rest) = self.rest.split_at_checked(length).ok_or(WireError::Short)?;
        self.rest = rest;
        Ok(first)
    }
}
