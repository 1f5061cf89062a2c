//! Values as Go prints them, and how it reads numbers: Kubernetes' messages and table cells are made of these.

pub use capt_schema::go::text::{
    float, is_printable, json, number, plain, quote, quote_char, write_json, write_json_string,
};

/// Why Go takes a text for no signed 64-bit number, or the number.
pub fn parse_int(text: &str) -> Result<i64, String> {
    text.parse().map_err(|_| not_a_number("ParseInt", text, text.strip_prefix(['+', '-']).unwrap_or(text)))
}

/// Why Go takes a text for no unsigned 64-bit number, or the number.
pub fn parse_uint(text: &str) -> Result<u64, String> {
    // Rust reads a plus sign here, Go does not.
    let digits = text.bytes().all(|b| b.is_ascii_digit());
    match text.parse() {
        Ok(number) if digits => Ok(number),
        _ => Err(not_a_number("ParseUint", text, text)),
    }
}

fn not_a_number(function: &str, text: &str, digits: &str) -> String {
    let number = !digits.is_empty() && digits.bytes().all(|b| b.is_ascii_digit());
    let why = if number { "value out of range" } else { "invalid syntax" };
    format!("strconv.{function}: parsing {}: {why}", quote(text))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_number_is_explained() {
        assert_eq!(parse_int("-7"), Ok(-7));
        assert_eq!(parse_int("x"), Err("strconv.ParseInt: parsing \"x\": invalid syntax".to_owned()));
        assert_eq!(
            parse_int("99999999999999999999"),
            Err("strconv.ParseInt: parsing \"99999999999999999999\": value out of range".to_owned())
        );
        assert_eq!(parse_uint("-1"), Err("strconv.ParseUint: parsing \"-1\": invalid syntax".to_owned()));
        assert_eq!(parse_uint("+1"), Err("strconv.ParseUint: parsing \"+1\": invalid syntax".to_owned()));
    }
}
