//! The `latchkey` binary as a process: what it says, what it refuses, and how it ends.

mod process;
mod redis;

use std::io::Write as _;
use std::os::unix::fs::PermissionsExt as _;

use latchkey_core::fingerprint::{Candidate, Fingerprint};
use latchkey_core::identity::Identity;
use latchkey_core::operation::{Claim, Event, FilterEvent, Operation, Reply, Verdict};
use latchkey_core::record::{ExecutionId, OnAmbiguous, Subject, Terms};
use latchkey_core::time::StoreTime;
use latchkey_core::wire::state_v1::{BatchReply, BatchRequest};
use latchkey_core::wire::{self, Message as _, decode_result, encode_operation};
use process::{Home, answer, batch_head, connect, eventually, get};
use redis::Redis;
use rustix::process::Signal;

const TOKEN: &str = "0123456789abcdef";

/// A batch in which `execution` claims the only key there is.
fn claim(execution: u8) -> Vec<u8> {
    let claim = Claim {
        execution: ExecutionId([execution; 16]),
        candidates: vec![Candidate {
            fingerprint: Fingerprint { version: 1, secret: "a".into(), digest: [1; 32] },
            derived_key: "derived".into(),
        }],
        terms: Terms {
            on_ambiguous: OnAmbiguous::Hold,
            attempts_max: 3,
            lease_us: 3_600_000_000,
            ttl_us: 3_600_000_000,
            held_ttl_us: 3_600_000_000,
        },
        subject: Subject {
            namespace: "test".into(),
            rule: "payments".into(),
            client: "private-client".into(),
            key: "private-key".into(),
        },
        gateway: "edge-1".into(),
    };
    let event = Event::Filter { void_after: StoreTime(1 << 53), event: FilterEvent::Claim(claim) };
    let operation = Operation { identity: Identity([1; 32]), event };
    let operations = vec![encode_operation(&operation).unwrap()];
    BatchRequest { gateway: None, operations }.encode_to_vec()
}

/// The only result in a reply.
fn result(answer: &process::Answer) -> wire::Answer {
    assert_eq!(answer.status, 200, "{answer:?}");
    let mut reply = BatchReply::decode(&answer.body[..]).unwrap();
    decode_result(reply.results.remove(0)).unwrap()
}

#[test]
fn what_was_acknowledged_survives_the_server_being_killed() {
    let home = Home::new();
    let server = home.serve(&[], &[]);
    let claimed = result(&server.batch(&[], &claim(1)));
    assert!(matches!(claimed, wire::Answer::Reply(Reply::Claimed(_))), "{claimed:?}");
    server.kill();
    let server = home.serve(&[], &[]);
    let refused = result(&server.batch(&[], &claim(2)));
    let in_progress =
        matches!(refused, wire::Answer::Reply(Reply::Refused(Verdict::InProgress { .. })));
    assert!(in_progress, "{refused:?}");
}

#[test]
fn files_are_their_owners_alone() {
    let home = Home::new();
    let directory = home.path("data/of/latchkey");
    let _server = home.serve(&["--data-dir", directory.to_str().unwrap()], &[]);
    let mode = |path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(directory.clone()), 0o700);
    for file in std::fs::read_dir(&directory).unwrap() {
        let path = file.unwrap().path();
        assert_eq!(mode(path.clone()), 0o600, "{}", path.display());
    }
}

#[test]
fn what_was_accepted_is_answered_before_the_end() {
    let home = Home::new();
    let server = home.serve(&[], &[]);
    let body = claim(1);
    let mut stream = server.connect();
    stream.write_all(batch_head(&["expect: 100-continue"], body.len()).as_bytes()).unwrap();
    // The server asks for the body: the request is accepted.
    let mut go_on = [0; 25];
    std::io::Read::read_exact(&mut stream, &mut go_on).unwrap();
    assert_eq!(&go_on, b"HTTP/1.1 100 Continue\r\n\r\n");
    server.signal(Signal::TERM);
    eventually("no more connections are taken", || connect(server.address).err());
    stream.write_all(&body).unwrap();
    let claimed = result(&answer(stream));
    assert!(matches!(claimed, wire::Answer::Reply(Reply::Claimed(_))), "{claimed:?}");
    let ended = server.ended();
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn idle_connections_do_not_hold_up_the_end() {
    let home = Home::new();
    let server = home.serve(&[], &[]);
    let _idle = server.connect();
    let mut kept_alive = server.connect();
    kept_alive.write_all(b"GET /healthz HTTP/1.1\r\nhost: latchkey\r\n\r\n").unwrap();
    let mut first = [0; 15];
    std::io::Read::read_exact(&mut kept_alive, &mut first).unwrap();
    assert_eq!(&first, b"HTTP/1.1 200 OK");
    server.signal(Signal::INT);
    let ended = server.ended();
    assert!(ended.status.success(), "{ended:?}");
    assert!(!ended.log.contains("not answered"), "{}", ended.log);
}

#[test]
fn a_second_signal_ends_the_drain() {
    let home = Home::new();
    let server = home.serve(&[], &[]);
    let mut stream = server.connect();
    stream.write_all(batch_head(&["expect: 100-continue"], 100).as_bytes()).unwrap();
    std::io::Read::read_exact(&mut stream, &mut [0; 25]).unwrap();
    server.signal(Signal::TERM);
    eventually("it drains", || server.log().contains("stopping").then_some(()));
    server.signal(Signal::TERM);
    let ended = server.ended();
    assert!(ended.log.contains("not answered"), "{}", ended.log);
    assert!(ended.status.success(), "{ended:?}");
}

#[test]
fn off_loopback_nothing_is_served_without_a_token() {
    let ended = Home::new().fail(&["--listen", "0.0.0.0:0"], &[]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.log.contains("there is no token"), "{}", ended.log);
}

#[test]
fn a_field_that_there_is_not_is_refused() {
    let home = Home::new();
    let file = home.path("latchkey.toml");
    std::fs::write(&file, "lisen = '127.0.0.1:0'").unwrap();
    let ended = home.fail(&["--config", file.to_str().unwrap()], &[]);
    assert_eq!(ended.status.code(), Some(2));
    assert!(ended.log.contains("latchkey.toml: line 1: lisen"), "{}", ended.log);
}

#[test]
fn an_address_that_another_has_is_told_at_once() {
    let home = Home::new();
    let first = home.serve(&[], &[]);
    let second = Home::new();
    let taken = first.address.to_string();
    let ended = second.fail(&["--listen", &taken, "--metrics-listen", "off"], &[]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.log.contains(&format!("listen: cannot listen on {taken}")), "{}", ended.log);
    assert!(ended.log.contains("Another process has it"), "{}", ended.log);
    assert!(!second.path(".local").exists(), "it has not touched the store");

    let taken = first.metrics.to_string();
    let ended = second.fail(&["--listen", "127.0.0.1:0", "--metrics-listen", &taken], &[]);
    assert!(ended.log.contains("set metrics_listen to another address, or off"), "{}", ended.log);
}

#[test]
fn a_file_that_is_no_store_is_refused() {
    let home = Home::new();
    let file = home.path("notes.txt");
    std::fs::write(&file, "not a database, but longer than a header of one".repeat(100)).unwrap();
    let store = format!("sqlite:{}", file.display());
    let ended =
        home.fail(&["--store", &store, "--listen", "127.0.0.1:0", "--metrics-listen", "off"], &[]);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.log.contains("notes.txt cannot be used"), "{}", ended.log);
}

#[test]
fn a_redis_that_comes_late_is_waited_for() {
    let home = Home::new();
    let mut redis = Redis::absent(&home);
    let server = home.start(&[], &[("LATCHKEY_STORE", &redis.url())]);
    eventually("it waits", || server.log().contains("waiting for the store").then_some(()));
    redis.start();
    let server = server.serving();
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn while_redis_is_away_batches_are_refused_and_then_served_again() {
    let home = Home::new();
    let mut redis = Redis::absent(&home);
    redis.start();
    let server = home.serve(&[], &[("LATCHKEY_STORE", &redis.url())]);
    let claimed = result(&server.batch(&[], &claim(1)));
    assert!(matches!(claimed, wire::Answer::Reply(Reply::Claimed(_))), "{claimed:?}");
    redis.stop();
    let not_ready = eventually("it is not ready", || {
        Some(server.get("/readyz")).filter(|answer| answer.status == 503)
    });
    assert!(not_ready.text().contains("the store is unavailable"), "{not_ready:?}");
    assert_eq!(server.batch(&[], &claim(1)).status, 503);
    assert_eq!(server.get("/healthz").status, 200, "restarting it would not help");
    redis.start();
    eventually("it is ready", || (server.get("/readyz").status == 200).then_some(()));
    // This Redis keeps nothing over a restart, so the key is new to it.
    let claimed = result(&server.batch(&[], &claim(2)));
    assert!(matches!(claimed, wire::Answer::Reply(Reply::Claimed(_))), "{claimed:?}");
    let told = server.log().matches("the store does not answer").count();
    assert_eq!(told, 1, "told once: {}", server.log());
}

#[test]
fn a_store_that_does_not_come_is_told_without_its_password() {
    let home = Home::new();
    let store = [("LATCHKEY_STORE", "redis://ada:hunter2@127.0.0.1:1/")];
    let free = ["--listen", "127.0.0.1:0", "--metrics-listen", "off", "--store-wait-s", "1"];
    let ended = home.fail(&free, &store);
    assert_eq!(ended.status.code(), Some(1));
    assert!(ended.log.contains("waiting for the store"), "{}", ended.log);
    assert!(
        ended.log.contains("the store at redis://***@127.0.0.1:1/ could not be used for 1 s"),
        "{}",
        ended.log
    );
    assert!(!ended.log.contains("hunter2"), "{}", ended.log);
}

#[test]
fn filters_need_the_token_and_probes_do_not() {
    let home = Home::new();
    let server = home.serve(&[], &[("LATCHKEY_TOKEN", TOKEN)]);
    let refused = server.batch(&[], &claim(1));
    assert_eq!(refused.status, 401);
    assert!(refused.head.contains("application/problem+json"), "{}", refused.head);
    let bearer = format!("authorization: Bearer {TOKEN}");
    let claimed = result(&server.batch(&[&bearer], &claim(1)));
    assert!(matches!(claimed, wire::Answer::Reply(Reply::Claimed(_))), "{claimed:?}");
    assert_eq!(server.get("/healthz").status, 200);
    assert_eq!(server.get("/readyz").status, 200);
}

#[test]
fn metrics_are_on_a_listener_of_their_own() {
    let home = Home::new();
    let server = home.serve(&[], &[]);
    server.batch(&[], &claim(1));
    let metrics = get(server.metrics, "/metrics");
    assert_eq!(metrics.status, 200);
    let counted = "\nlatchkey_operations_total{kind=\"claim\",result=\"claimed\"} 1\n";
    assert!(metrics.text().contains(counted), "{}", metrics.text());
    assert_eq!(server.get("/metrics").status, 404);
    assert_eq!(get(server.metrics, "/readyz").status, 404);
}

#[test]
fn logs_are_json_on_request_and_never_tell_what_is_not_theirs() {
    let home = Home::new();
    let flags = ["--log-format", "json", "--log", "trace"];
    let server = home.serve(&flags, &[("LATCHKEY_TOKEN", TOKEN)]);
    let bearer = format!("authorization: Bearer {TOKEN}");
    assert_eq!(server.batch(&[&bearer], &claim(1)).status, 200);
    assert_eq!(server.batch(&[&bearer], b"private-body").status, 400);
    server.signal(Signal::TERM);
    let log = server.ended().log;
    assert!(log.lines().count() > 3, "{log}");
    for line in log.lines() {
        serde_json::from_str::<serde_json::Value>(line).unwrap();
    }
    for secret in [TOKEN, "private-client", "private-key", "private-body"] {
        assert!(!log.contains(secret), "{secret} in {log}");
    }
}
