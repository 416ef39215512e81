use super::*;

const BASE: Parts<'_> = Parts {
    method: b"POST",
    authority: b"api.example",
    path: b"/payments",
    query: b"a=1",
    content_type: b"application/json",
    content_encoding: b"",
    headers: &[],
    body: b"{\"amount\":1}",
};

fn digest(parts: &Parts<'_>) -> RequestDigest {
    Recipe::default().digest(parts)
}

fn json() -> Recipe {
    Recipe { body: BodyMode::Json, ..Recipe::default() }
}

#[test]
fn every_part_counts() {
    let others = [
        Parts { method: b"PATCH", ..BASE },
        Parts { authority: b"api.example:1", ..BASE },
        Parts { path: b"/payment", ..BASE },
        Parts { query: b"", ..BASE },
        Parts { content_type: b"text/plain", ..BASE },
        Parts { content_encoding: b"gzip", ..BASE },
        Parts { body: b"{\"amount\":1.0}", ..BASE },
        Parts { body: b"", ..BASE },
    ];
    for recipe in [Recipe::default(), json()] {
        for (at, other) in others.iter().enumerate() {
            assert_ne!(recipe.digest(&BASE), recipe.digest(other), "part {at}");
        }
        assert_eq!(recipe.digest(&BASE), recipe.digest(&BASE.clone()));
    }
}

#[test]
fn chosen_headers_count_and_others_do_not() {
    let recipe = Recipe { headers: vec!["x-version".to_owned()], ..Recipe::default() };
    let of = |lines: &[(&str, &str)]| {
        let line = |(name, value): &(&str, &str)| ((*name).to_owned(), (*value).to_owned());
        let headers: Vec<_> = lines.iter().map(line).collect();
        recipe.digest(&Parts { headers: &headers, ..BASE })
    };
    assert_eq!(of(&[]), digest(&BASE));
    assert_eq!(of(&[("x-other", "1")]), of(&[]));
    assert_ne!(of(&[("x-version", "1")]), of(&[]));
    assert_ne!(of(&[("x-version", "")]), of(&[]));
}

#[test]
fn parts_cannot_shift_into_each_other() {
    let left = Parts { path: b"/a", query: b"bc", ..BASE };
    let right = Parts { path: b"/ab", query: b"c", ..BASE };
    assert_ne!(digest(&left), digest(&right));
}

#[test]
fn json_is_compared_by_value_where_the_recipe_says_so_and_by_its_bytes_elsewhere() {
    let one = Parts { body: br#"{"a":1,"b":2}"#, ..BASE };
    let other = Parts { body: br#"{"b":2,"a":1}"#, ..BASE };
    assert_eq!(json().digest(&one), json().digest(&other));
    assert_ne!(digest(&one), digest(&other));
    for pair in [
        [&b"{\"a\":1}"[..], b"{\"a\":1.0}"],
        [br#"{"a":1,"a":2}"#, br#"{"a":2,"a":1}"#],
        [b"{\"a\":9007199254740993}", b"{\"a\":9007199254740992}"],
        ["\"caf\u{e9}\"".as_bytes(), "\"cafe\u{301}\"".as_bytes()],
    ] {
        let [one, other] = pair.map(|body| Parts { body, ..BASE });
        assert_ne!(json().digest(&one), json().digest(&other));
        assert_ne!(digest(&one), digest(&other));
    }
}

#[test]
fn what_is_no_json_is_compared_by_its_bytes_and_is_never_a_json_value() {
    let form = Parts { content_type: b"application/x-www-form-urlencoded", body: b"a=1", ..BASE };
    assert_eq!(json().digest(&form), digest(&form));
    let twice = Parts { body: br#"{"a":1,"a":2}"#, ..BASE };
    assert_eq!(json().digest(&twice), digest(&twice));
    assert_ne!(json().digest(&BASE), digest(&BASE));
    // A body that is the digest of another's value.
    let value = super::json::value_digest(&BASE).unwrap();
    assert_ne!(json().digest(&Parts { body: &value, ..BASE }), json().digest(&BASE));
}

#[test]
fn excluded_parameters_do_not_count() {
    let recipe = Recipe { query_exclude: vec!["nonce".to_owned()], ..Recipe::default() };
    let of = |query: &'static str| recipe.digest(&Parts { query: query.as_bytes(), ..BASE });
    assert_eq!(of("a=1&nonce=1"), of("nonce=2&a=1"));
    assert_ne!(of("a=1&nonce=1"), of("a=2&nonce=1"));
}

#[test]
fn a_rule_that_changes_recognises_what_it_made_before() {
    let secret = Secret::new("a".into(), b"one");
    let identity = Identity([7; 32]);
    let before = secret.candidate(&identity, &digest(&BASE));
    let now = [json(), Recipe::default()].map(|it| secret.candidate(&identity, &it.digest(&BASE)));
    assert!(now.iter().any(|candidate| candidate.fingerprint == before.fingerprint));
    assert!(now.iter().all(|candidate| candidate.derived_key == before.derived_key));
}

#[test]
fn secrets_give_different_fingerprints_and_derived_keys() {
    let identity = Identity([7; 32]);
    let one = Secret::new("a".into(), b"one").candidate(&identity, &digest(&BASE));
    let two = Secret::new("b".into(), b"two").candidate(&identity, &digest(&BASE));
    assert_ne!(one.fingerprint.digest, two.fingerprint.digest);
    assert_ne!(one.derived_key, two.derived_key);
    let again = Secret::new("a".into(), b"one").candidate(&identity, &digest(&BASE));
    assert_eq!(one, again);
}

#[test]
fn the_derived_key_is_a_uuid_of_version_8() {
    let key =
        Secret::new("a".into(), b"one").candidate(&Identity([7; 32]), &digest(&BASE)).derived_key;
    assert_eq!(key.len(), 36);
    assert_eq!(key.as_bytes()[14], b'8');
    assert!(b"89ab".contains(&key.as_bytes()[19]));
}

#[test]
fn the_framings_of_versions_1_and_2_never_change() {
    let made = |recipe: &Recipe| {
        let made =
            Secret::new("a".into(), b"one").candidate(&Identity([7; 32]), &recipe.digest(&BASE));
        let print = made.fingerprint;
        format!("{} {} {}", print.version, hex::encode(&print.digest), made.derived_key)
    };
    insta::assert_snapshot!(
        made(&Recipe::default()),
        @"1 885b21c565098604e2fbbcc7d637ac19b8e6ca29329f32bd30fa4463d584e7b5 7bc7d77c-ae23-8ff9-8d5f-75eae6a0c5a3"
    );
    insta::assert_snapshot!(
        made(&json()),
        @"2 aaf9fa56f2fd1cd5fd71de8ddd8314a0f516c784e2634e347c80bef033913d52 7bc7d77c-ae23-8ff9-8d5f-75eae6a0c5a3"
    );
}

#[test]
fn a_secret_does_not_print_itself() {
    assert_eq!(format!("{:?}", Secret::new("a".into(), b"hunter2")), "Secret(a)");
}
