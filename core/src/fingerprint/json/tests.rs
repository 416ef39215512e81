use proptest::prelude::*;
use serde_json::Value;

use super::*;

fn digest_of(content_type: &str, encoding: &str, body: &[u8]) -> Option<Digest32> {
    value_digest(&Parts {
        method: b"POST",
        authority: b"api.example",
        path: b"/payments",
        query: b"",
        content_type: content_type.as_bytes(),
        content_encoding: encoding.as_bytes(),
        headers: &[],
        body,
    })
}

fn of(body: &str) -> Option<Digest32> {
    digest_of("application/json", "", body.as_bytes())
}

fn equal(one: &str, other: &str) {
    assert!(of(one).is_some(), "{one}");
    assert_eq!(of(one), of(other), "{one} {other}");
}

fn differ(one: &str, other: &str) {
    assert!(of(one).is_some() && of(other).is_some(), "{one} {other}");
    assert_ne!(of(one), of(other), "{one} {other}");
}

fn not_understood(body: &[u8]) {
    assert_eq!(digest_of("application/json", "", body), None, "{}", String::from_utf8_lossy(body));
}

#[test]
fn the_order_of_members_and_white_space_do_not_count() {
    equal(r#"{"a":1,"b":[true,null]}"#, " {\n\t\"b\" : [ true , null ] ,\r \"a\" : 1 } ");
    equal(r#"{"x":{"b":1,"a":2}}"#, r#"{"x":{"a":2,"b":1}}"#);
    equal("[]", "[ ]");
    equal("{}", "{ }");
}

#[test]
fn the_order_of_an_array_counts() {
    differ("[1,2]", "[2,1]");
    differ("[[1],2]", "[1,[2]]");
    differ("[1,2]", "[[1,2]]");
}

#[test]
fn numbers_count_as_they_are_written() {
    for (one, other) in [
        ("1", "1.0"),
        ("1", "1e0"),
        ("1e1", "1E1"),
        ("0", "-0"),
        ("9007199254740993", "9007199254740992"),
    ] {
        differ(one, other);
        differ(&format!(r#"{{"amount":{one}}}"#), &format!(r#"{{"amount":{other}}}"#));
    }
}

#[test]
fn strings_count_by_value_and_are_not_normalised() {
    equal(r#""caf\u00e9\n\/""#, "\"caf\u{e9}\\n/\"");
    equal(r#""\ud83d\ude00""#, "\"\u{1f600}\"");
    equal(r#"{"\u0061":1}"#, r#"{"a":1}"#);
    differ("\"caf\u{e9}\"", "\"cafe\u{301}\"");
    differ(r#""1""#, "1");
    differ(r#""true""#, "true");
    differ("null", "{}");
    differ(r#"{"a":null}"#, "{}");
    differ(r#"{"ab":"c"}"#, r#"{"a":"bc"}"#);
    differ("{}", "[]");
}

#[test]
fn what_could_be_read_in_two_ways_is_not_understood() {
    let bodies: [&[u8]; 30] = [
        b"",
        b" ",
        br#"{"amount":1,"amount":100}"#,
        br#"{"a":1,"\u0061":1}"#,
        br#""\ud800""#,
        br#""\udc00""#,
        br#""\ud800\u0061""#,
        b"\"\xff\"",
        b"\xef\xbb\xbf{}",
        b"{} {}",
        b"1 2",
        b"NaN",
        b"-",
        b"01",
        b"1.",
        b".5",
        b"1e",
        b"+1",
        b"[1,]",
        b"[,1]",
        b"{\"a\":1,}",
        b"{a:1}",
        b"{'a':1}",
        b"\"a\tb\"",
        br#""\x""#,
        br#""\u12g4""#,
        b"\"open",
        b"{\"a\"",
        b"tru",
        b"// comment\n1",
    ];
    for body in bodies {
        not_understood(body);
    }
}

#[test]
fn depth_and_size_have_an_end() {
    let nested = |depth: usize| format!("{}{}", "[".repeat(depth), "]".repeat(depth));
    assert!(of(&nested(DEPTH_MAX)).is_some());
    not_understood(nested(DEPTH_MAX + 1).as_bytes());
    not_understood("[".repeat(100_000).as_bytes());
    not_understood("{\"a\":".repeat(100_000).as_bytes());
    let text = |size: usize| format!("\"{}\"", "a".repeat(size - 2));
    assert!(of(&text(BODY_MAX_BYTES)).is_some());
    not_understood(text(BODY_MAX_BYTES + 1).as_bytes());
}

#[test]
fn only_json_that_is_not_coded_is_looked_at() {
    for content_type in ["application/json; charset=utf-8", "Application/Problem+JSON"] {
        assert!(digest_of(content_type, "", b"{}").is_some(), "{content_type}");
    }
    let others = ["", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data"];
    for content_type in others {
        assert_eq!(digest_of(content_type, "", b"{}"), None, "{content_type}");
    }
    assert!(digest_of("application/json", "Identity", b"{}").is_some());
    assert_eq!(digest_of("application/json", "gzip", b"{}"), None);
}

/// A value, and its text with members in another order.
fn shuffled(value: &Value, seed: u64, out: &mut String) {
    match value {
        Value::Object(members) => {
            let mut members: Vec<_> = members.iter().collect();
            let at = usize::try_from(seed).unwrap_or(0) % members.len().max(1);
            members.rotate_left(at);
            let member = |(name, value): (&String, &Value)| {
                let mut text = format!("{}: ", Value::String(name.clone()));
                shuffled(value, seed / 2, &mut text);
                text
            };
            let members: Vec<_> = members.into_iter().map(member).collect();
            out.push_str(&format!("{{{}}}", members.join(" , ")));
        }
        Value::Array(items) => {
            let item = |value| {
                let mut text = String::new();
                shuffled(value, seed / 3, &mut text);
                text
            };
            let items: Vec<_> = items.iter().map(item).collect();
            out.push_str(&format!("[{}]", items.join(",")));
        }
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
            out.push_str(&value.to_string());
        }
    }
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i32>().prop_map(Value::from),
        any::<String>().prop_map(Value::from),
    ];
    leaf.prop_recursive(4, 32, 5, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..5).prop_map(Value::from),
            proptest::collection::btree_map(any::<String>(), inner, 0..5)
                .prop_map(|members| Value::Object(members.into_iter().collect())),
        ]
    })
}

proptest! {
    #[test]
    fn any_order_of_members_is_one_value(value in values(), seed in any::<u64>()) {
        let mut text = String::new();
        shuffled(&value, seed, &mut text);
        let digest = of(&value.to_string());
        prop_assert!(digest.is_some());
        prop_assert_eq!(digest, of(&text), "{}", text);
    }

    #[test]
    fn different_values_have_different_digests(one in values(), other in values()) {
        prop_assert_eq!(one == other, of(&one.to_string()) == of(&other.to_string()));
    }

    /// What is understood here is JSON to others too, and nothing panics.
    #[test]
    fn whatever_is_understood_is_json(body in proptest::collection::vec(any::<u8>(), 0..64)) {
        if digest_of("application/json", "", &body).is_some() {
            prop_assert!(serde_json::from_slice::<Value>(&body).is_ok());
        }
    }
}
