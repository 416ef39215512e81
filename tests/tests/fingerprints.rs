//! What makes a request the same one.

use anyhow::{Context as _, ensure};
use latchkey_tests::client::Request;
use latchkey_tests::scenario::{
    Act, EVERY_MODE, check_number, check_problem, number_answers, play_scripted,
};
use latchkey_tests::scripted::{Scripted, path};
use latchkey_tests::stage::Setup;
use serde_json::json;

const REUSED: &str = "idempotency-key-reused";

/// Bodies of payments are compared by their value, those of orders by their bytes.
#[expect(clippy::unnecessary_wraps, reason = "a change may fail")]
fn json_payments(setup: &mut Setup) -> anyhow::Result<()> {
    setup.rule("payments")["fingerprint"] = json!({ "body": "json" });
    Ok(())
}

/// Whether `again` is the same request as `first`, which has its key.
async fn is_the_same(
    act: &Act<'_>,
    upstream: &Scripted,
    name: &str,
    (first, again): (&Request, &Request),
) -> anyhow::Result<bool> {
    number_answers(upstream, name);
    check_number(act, first, 1, false).await?;
    check_number(act, first, 1, true).await?;
    let told = act.send(again).await?;
    if !told.is_replayed() {
        check_problem(&told, 422, REUSED)?;
    }
    check_number(act, first, 1, true).await?;
    upstream.heard(name, 1)?;
    Ok(told.is_replayed())
}

/// Compares bodies of one type, on the rule that looks at values and on the one that does not.
async fn compare(
    act: &Act<'_>,
    upstream: &Scripted,
    headers: &[(&str, &str)],
    cases: &[(&str, &str, bool)],
) -> anyhow::Result<()> {
    for (number, (first, again, same_value)) in cases.iter().enumerate() {
        for (book, same) in [("payments", *same_value), ("orders", first == again)] {
            let name = &format!("{book}-{}-{number}", headers[0].1.replace(['/', ' ', ';'], "-"));
            let request = Request::post(&path(book, name)).key(name);
            let request =
                headers.iter().fold(request, |request, (name, value)| request.header(name, value));
            let requests =
                (&request.clone().bytes((*first).to_owned()), &request.bytes((*again).to_owned()));
            let is_same = is_the_same(act, upstream, name, requests).await?;
            ensure!(is_same == same, "{book}: {first} and {again} are the same: {is_same}");
        }
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread")]
async fn json_is_compared_by_its_value_where_the_rule_says_so_and_by_its_bytes_elsewhere() {
    let (deep, too_deep) = (nested(60, ""), nested(70, ""));
    let (deep_apart, too_deep_apart) = (nested(60, " "), nested(70, " "));
    play_scripted(&EVERY_MODE, json_payments, async |act, upstream, _| {
        let cases = [
            (r#"{"a":1,"b":2}"#, r#"{"a":1,"b":2}"#, true),
            (r#"{"a":1,"b":2}"#, r#"{"b":2,"a":1}"#, true),
            (r#"{"a":1}"#, r#"{"a": 1}"#, true),
            (r#"{"a":{"b":[{"c":1,"d":2}]}}"#, "{\"a\":{\r\n\"b\":[{\"d\":2,\"c\":1}]}}\n", true),
            (r#"{"a":"caf\u00e9\/"}"#, r#"{"a":"café/"}"#, true),
            (&deep, &deep_apart, true),
            // Numbers count as they are written.
            (r#"{"a":1}"#, r#"{"a":1.0}"#, false),
            (r#"{"a":1}"#, r#"{"a":1e0}"#, false),
            (r#"{"a":1e2}"#, r#"{"a":1E2}"#, false),
            (r#"{"a":0}"#, r#"{"a":-0}"#, false),
            (r#"{"a":12345678901234567890}"#, r#"{"a":12345678901234567891}"#, false),
            (r#"{"a":1}"#, r#"{"a":"1"}"#, false),
            (r#"{"a":[1,2]}"#, r#"{"a":[2,1]}"#, false),
            (r#"{"a":null}"#, "{}", false),
            (r#"{"a":"x"}"#, r#"{"a":"x "}"#, false),
            ("{\"a\":\"\u{e9}\"}", "{\"a\":\"e\u{301}\"}", false),
            // What is not plain JSON counts by its bytes.
            (r#"{"a":1,"a":1}"#, r#"{"a":1,"a":1}"#, true),
            (r#"{"a":1,"a":1}"#, r#"{"a":1}"#, false),
            (r#"{"a":1,"a":2}"#, r#"{"a":2,"a":1}"#, false),
            (r#"{"a":1,"\u0061":1}"#, r#"{"\u0061":1,"a":1}"#, false),
            (r#"{"a":1,}"#, r#"{"a":1,}"#, true),
            (r#"{"a":1,}"#, r#"{"a":1, }"#, false),
            (r#"{"a":"\ud800"}"#, r#"{"a": "\ud800"}"#, false),
            ("{} // paid", "{}  // paid", false),
            ("{}{}", "{} {}", false),
            ("", " ", false),
            (&too_deep, &too_deep_apart, false),
        ];
        compare(act, upstream, &[("content-type", "application/json")], &cases).await
    })
    .await;
}

/// A JSON value in so many arrays.
fn nested(levels: usize, space: &str) -> String {
    format!("{}{space}1{}", "[".repeat(levels), "]".repeat(levels))
}

#[tokio::test(flavor = "multi_thread")]
async fn only_what_says_that_it_is_json_is_compared_by_its_value() {
    play_scripted(&EVERY_MODE, json_payments, async |act, upstream, _| {
        let apart = [(r#"{"a":1,"b":2}"#, r#"{ "b": 2, "a": 1 }"#)];
        for (kind, coding, same) in [
            ("application/json; charset=utf-8", None, true),
            ("Application/JSON", None, true),
            ("application/problem+json", None, true),
            ("application/vnd.api+json;v=1", None, true),
            ("application/json", Some("gzip"), false),
            ("text/json", None, false),
            ("application/jsonl", None, false),
            ("text/plain", None, false),
            ("application/x-www-form-urlencoded", None, false),
        ] {
            let headers: Vec<_> = [("content-type", kind)]
                .into_iter()
                .chain(coding.map(|coding| ("content-encoding", coding)))
                .collect();
            let cases = apart.map(|(first, again)| (first, again, same));
            compare(act, upstream, &headers, &cases).await.with_context(|| kind.to_owned())?;
        }
        // The type itself counts as it is written.
        let request = |name: &str, kind| {
            let request = Request::post(&path("payments", name)).key(name);
            request.header("content-type", kind).bytes("{}")
        };
        let name = "types";
        let requests =
            (&request(name, "application/json"), &request(name, "application/json;charset=utf-8"));
        ensure!(!is_the_same(act, upstream, name, requests).await?);
        Ok(())
    })
    .await;
}

/// A body of one part, divided by `boundary`.
fn multipart(boundary: &str) -> String {
    format!(
        "--{boundary}\r\ncontent-disposition: form-data; name=\"a\"\r\n\r\n1\r\n--{boundary}--\r\n"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn forms_and_multipart_bodies_are_compared_by_their_bytes() {
    play_scripted(&EVERY_MODE, json_payments, async |act, upstream, _| {
        let form = [("a=1&b=2", "a=1&b=2", true), ("a=1&b=2", "b=2&a=1", false)];
        let form_type = ("content-type", "application/x-www-form-urlencoded");
        compare(act, upstream, &[form_type], &form).await?;
        for (book, boundary, same) in
            [("payments", "one", true), ("payments", "two", false), ("orders", "one", true)]
        {
            let name = &format!("multipart-{book}-{boundary}");
            let request = |boundary: &str| {
                let request = Request::post(&path(book, name)).key(name);
                let kind = format!("multipart/form-data; boundary={boundary}");
                request.header("content-type", kind).bytes(multipart(boundary))
            };
            let requests = (&request("one"), &request(boundary));
            let is_same = is_the_same(act, upstream, name, requests).await?;
            ensure!(is_same == same, "{name}: {is_same}");
            let heard = &upstream.heard(name, 1)?[0];
            ensure!(heard.body == multipart("one").into_bytes(), "{heard:?}");
        }
        Ok(())
    })
    .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn chosen_headers_count_and_chosen_parameters_of_the_query_do_not() {
    let chosen = |setup: &mut Setup| {
        setup.rule("payments")["fingerprint"] =
            json!({ "headers": ["X-Version", "x-part"], "query_exclude": ["signature", "t"] });
        Ok(())
    };
    play_scripted(&EVERY_MODE, chosen, async |act, upstream, _| {
        let first =
            ("?a=1&signature=x&b=2", &[("x-version", "1"), ("x-part", "p"), ("x-part", "q")][..]);
        for (number, (query, headers, same)) in [
            ("?a=1&signature=another&b=2", first.1, true),
            ("?a=1&b=2", first.1, true),
            ("?t=7&a=1&b=2&s%69gnature=", first.1, true),
            (
                "?a=1&signature=x&b=2",
                &[("x-version", "1"), ("x-other", "1"), ("x-part", "p"), ("x-part", "q")],
                true,
            ),
            ("?b=2&a=1", first.1, false),
            ("?a=1&b=3", first.1, false),
            ("?a=1&b=2&c=", first.1, false),
            ("?a=1&b=2&signatures=x", first.1, false),
            ("?a=%31&b=2", first.1, false),
            (
                "?a=1&signature=x&b=2",
                &[("x-version", "2"), ("x-part", "p"), ("x-part", "q")],
                false,
            ),
            ("?a=1&signature=x&b=2", &[("x-part", "p"), ("x-part", "q")], false),
            ("?a=1&signature=x&b=2", &[("x-version", "1"), ("x-part", "p")], false),
            (
                "?a=1&signature=x&b=2",
                &[("x-version", "1"), ("x-part", "q"), ("x-part", "p")],
                false,
            ),
            (
                "?a=1&signature=x&b=2",
                &[("x-version", "1"), ("x-version", "1"), ("x-part", "p"), ("x-part", "q")],
                false,
            ),
        ]
        .into_iter()
        .enumerate()
        {
            let name = &format!("chosen-{number}");
            let request = |(query, headers): (&str, &[(&str, &str)])| {
                let request = Request::post(&format!("{}{query}", path("payments", name)));
                headers.iter().fold(request.key(name), |it, (name, value)| it.header(name, value))
            };
            let again = request((query, headers));
            let is_same = is_the_same(act, upstream, name, (&request(first), &again)).await?;
            ensure!(is_same == same, "{query} with {headers:?} is the same: {is_same}");
            let heard = &upstream.heard(name, 1)?[0].start;
            ensure!(heard.contains("?a=1&signature=x&b=2 "), "the upstream got {heard}");
        }
        Ok(())
    })
    .await;
}
