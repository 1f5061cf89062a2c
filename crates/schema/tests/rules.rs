//! CEL rules: what compiles, what holds, and what is said when it does not.

use capt_schema::Schema;
use serde_json::{Value, json};

/// A schema with one of everything a rule can look at.
fn schema(rule: &Value) -> Value {
    json!({"type": "object", "properties": {"spec": {
        "type": "object",
        "x-kubernetes-validations": [rule],
        "properties": {
            "name": {"type": "string"},
            "count": {"type": "integer"},
            "ratio": {"type": "number"},
            "on": {"type": "boolean"},
            "a-b": {"type": "string"},
            "namespace": {"type": "string"},
            "time": {"type": "string", "format": "date-time"},
            "day": {"type": "string", "format": "date"},
            "wait": {"type": "string", "format": "duration"},
            "data": {"type": "string", "format": "byte"},
            "port": {"x-kubernetes-int-or-string": true},
            "maybe": {"type": "string", "nullable": true},
            "any": {"x-kubernetes-preserve-unknown-fields": true},
            "labels": {"type": "object", "additionalProperties": {"type": "string"}},
            "anys": {"type": "object", "additionalProperties": {"x-kubernetes-preserve-unknown-fields": true}},
            "names": {"type": "array", "items": {"type": "string"}},
            "numbers": {"type": "array", "items": {"type": "integer"}},
            "set": {"type": "array", "x-kubernetes-list-type": "set", "items": {"type": "string"}},
            "map": {"type": "array", "x-kubernetes-list-type": "map", "x-kubernetes-list-map-keys": ["k"],
                "items": {"type": "object", "required": ["k"], "properties": {"k": {"type": "string"}, "v": {"type": "integer"}}}},
            "inner": {"type": "object", "properties": {"x": {"type": "string"}}},
            "resource": {"type": "object", "x-kubernetes-embedded-resource": true, "x-kubernetes-preserve-unknown-fields": true},
        },
    }}})
}

fn verdict(rule: &str, spec: &Value, old: Option<&Value>) -> Vec<String> {
    let compiled = match Schema::compile(&schema(&json!({"rule": rule, "message": "no"}))) {
        Ok(compiled) => compiled,
        Err(errors) => {
            return errors.iter().map(|error| format!("{}: {}", error.path, error.detail)).collect();
        }
    };
    let old = old.map(|old| json!({"spec": old}));
    compiled.validate(&json!({"spec": spec}), old.as_ref()).iter().map(ToString::to_string).collect()
}

const NO: &str = "spec: Invalid value: no";

#[test]
fn rules_hold() {
    let spec = json!({
        "name": "abc", "count": 3, "ratio": 1.5, "on": true, "a-b": "dash", "namespace": "ns",
        "time": "2024-03-01T10:20:30Z", "day": "2024-03-01", "wait": "90m", "data": "YWJj", "port": 80,
        "maybe": null, "any": {"deep": [1]}, "labels": {"k": "v", "a/b": "c"}, "anys": {"x": 1, "y": {}},
        "names": ["b", "a"], "numbers": [3, 1, 2], "set": ["x", "y"], "map": [{"k": "one", "v": 1}, {"k": "two"}],
        "inner": {"x": "y"}, "resource": {"apiVersion": "v1", "kind": "X", "metadata": {"name": "n", "labels": {}}},
    });
    let rules = [
        "self.name == 'abc' && self.count == 3 && self.ratio == 1.5 && self.on",
        "self.count + 1 > 3 && self.count * 2 - 1 == 5 && self.count / 2 == 1 && self.count % 2 == 1 && -self.count == -3",
        "self.count < 3.5 && self.ratio > 1",
        "self.a__dash__b == 'dash' && self.__namespace__ == 'ns'",
        "has(self.name) && !has(self.maybe)",
        "self.name.startsWith('a') && self.name.endsWith('c') && self.name.contains('b') && self.name.matches('^[a-c]+$')",
        "self.name.size() == 3 && size(self.names) == 2 && self.labels.size() == 2",
        "'k' in self.labels && self.labels['k'] == 'v' && self.labels.k == 'v' && self.labels['a/b'] == 'c'",
        "self.labels.all(k, k.size() > 0) && self.labels.exists(k, self.labels[k] == 'c')",
        "self.names.all(n, n.size() == 1) && self.names.exists(n, n == 'a') && self.names.exists_one(n, n == 'b')",
        "self.names.map(n, n + '!') == ['b!', 'a!'] && self.names.filter(n, n != 'a') == ['b']",
        "self.names.map(n, n == 'a', n + n) == ['aa']",
        "self.numbers.sum() == 6 && self.numbers.max() == 3 && self.numbers.min() == 1 && !self.numbers.isSorted()",
        "self.numbers.sort() == [1, 2, 3] && self.numbers.reverse() == [2, 1, 3] && self.numbers.slice(1, 3) == [1, 2]",
        "self.names.sortBy(n, n) == ['a', 'b'] && [1, 1, 2].distinct() == [1, 2] && [[1], [2]].flatten() == [1, 2]",
        "lists.range(3) == [0, 1, 2] && self.numbers.indexOf(1) == 1 && self.numbers.lastIndexOf(9) == -1",
        "self.numbers.first().orValue(0) == 3 && self.numbers.last() == optional.of(2)",
        "self.set == ['y', 'x'] && self.names != ['a', 'b']",
        "self.map.exists(e, e.k == 'one' && e.v == 1) && self.map.all(e, !has(e.v) || e.v > 0)",
        "self.inner.x == 'y' && self.inner.?x.orValue('z') == 'y' && !self.?maybe.hasValue()",
        "self.labels[?'none'].orValue('d') == 'd' && self.names[?5] == optional.none()",
        "self.?inner.x.optMap(x, x + '!').value() == 'y!' && self.labels[?'k'].optFlatMap(v, optional.of(v)).hasValue()",
        "[?self.labels[?'k'], ?self.labels[?'none']] == ['v'] && {'a': 1, ?'b': optional.none()}.size() == 1",
        "self.time == timestamp('2024-03-01T10:20:30Z') && self.time.getFullYear() == 2024 && self.time.getMonth() == 2",
        "self.time.getHours('Europe/Berlin') == 11 && self.time.getHours('-02:30') == 7 && self.time.getDayOfWeek() == 5",
        "self.time - self.day == duration('10h20m30s') && self.day < self.time && self.day + self.wait < self.time",
        "self.wait == duration('1h30m') && self.wait.getMinutes() == 90 && string(self.wait) == '5400s'",
        "self.data == b'abc' && string(self.data) == 'abc' && size(self.data) == 3",
        "self.port == 80 && type(self.port) == int && (type(self.port) == string ? self.port == 'http' : self.port > 0)",
        "type(self.names) == list && type(self.name) == string && type(self.time) == google.protobuf.Timestamp",
        "has(dyn(self).any) && dyn(self).anys.all(k, k.matches('^[a-z]$')) && has(dyn(self).anys.x)",
        "int('5') == 5 && double(2) == 2.0 && string(1.5) == '1.5' && uint(3) == 3u && bool('true') && int(2.9) == 2",
        "self.name.upperAscii() == 'ABC' && 'A-B'.lowerAscii() == 'a-b' && ' x '.trim() == 'x' && 'a,b'.split(',') == ['a', 'b']",
        "['a', 'b'].join('-') == 'a-b' && 'abc'.substring(1) == 'bc' && 'abc'.substring(0, 2) == 'ab' && 'abc'.charAt(1) == 'b'",
        "'abcb'.indexOf('b') == 1 && 'abcb'.lastIndexOf('b') == 3 && 'aaa'.replace('a', 'b', 2) == 'bba'",
        "'%s is %d (%.2f)'.format([dyn('x'), dyn(5), dyn(1.5)]) == 'x is 5 (1.50)' && strings.quote('a\"') == '\"a\\\\\"\"'",
        "'abc 123'.find('[0-9]+') == '123' && 'a1b2'.findAll('[0-9]') == ['1', '2'] && 'a1b2'.findAll('[0-9]', 1) == ['1']",
        "sets.contains(['a', 'b'], ['a']) && sets.equivalent([1, 2], [2, 1, 1]) && sets.intersects([1], [1, 2])",
        "url('https://h.example:80/p?q=1').getHost() == 'h.example:80' && url('https://h:80/p?q=1').getQuery()['q'] == ['1'] && !isURL('x')",
        "isIP('::1') && ip('10.0.0.1').family() == 4 && ip('127.0.0.1').isLoopback() && ip.isCanonical('::1') && string(ip('::1')) == '::1'",
        "cidr('10.0.0.0/8').containsIP('10.1.1.1') && cidr('10.0.0.0/8').containsCIDR('10.1.0.0/16') && cidr('10.1.2.3/8').masked() == cidr('10.0.0.0/8')",
        "cidr('10.0.0.0/8').prefixLength() == 8 && cidr('10.0.0.0/8').ip() == ip('10.0.0.0') && !isCIDR('10.0.0.0/33')",
        "quantity('1Gi').isGreaterThan(quantity('1G')) && quantity('500m').add(quantity('0.5')) == quantity('1') && sign(quantity('-1')) == -1",
        "quantity('1k').asInteger() == 1000 && !quantity('1m').isInteger() && isQuantity('1Ei') && quantity('2').compareTo(quantity('1')) == 1",
        "semver('1.2.3').isLessThan(semver('1.10.0')) && semver('v1.2', true).minor() == 2 && !isSemver('1.2')",
        "format.named('dns1123Label').hasValue() && !format.dns1123Label().validate('a-b').hasValue() && format.dns1123Label().validate('A').hasValue()",
        "self.resource.metadata.name == 'n' && self.resource.kind == 'X'",
        "self.names.all(i, n, i < 2 && n.size() == 1) && self.labels.exists(k, v, v == 'c') && self.names.existsOne(i, n, n == 'a')",
        "self.names.transformList(i, n, n + string(i)) == ['b0', 'a1'] && self.labels.transformMap(k, v, k + v)['k'] == 'kv'",
        "self.names.transformMapEntry(i, n, {n: i}) == {'b': 0, 'a': 1}",
        "self.numbers + [4] == [3, 1, 2, 4] && self.set + ['x', 'z'] == ['x', 'y', 'z']",
        "[1, 2].exists(x, x / 0 == 1 || true) && (1 / 0 == 0 || true) && !(false && 1 / 0 == 0)",
        "r'\\d' == '\\\\d' && 'a' < 'b' && b'a' < b'b' && '''it's''' == \"it's\" && 0x10 == 16 && 1e3 == 1000.0",
        "true ? true : 1 / 0 == 1 // a comment",
        "9223372036854775807 > -9223372036854775808",
    ];
    for rule in rules {
        assert_eq!(verdict(rule, &spec, None), Vec::<String>::new(), "{rule}");
        let negated = format!("!({rule}\n)");
        assert_eq!(verdict(&negated, &spec, None), [NO], "{negated}");
    }
}
