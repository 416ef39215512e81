//! The file that a SQLite store is.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use latchkey_core::operation::Reply;
use latchkey_state::sqlite::{SqliteOptions, SqliteStore};
use latchkey_state::{StateStore, StoreClock, StoreError};
use rusqlite::Connection;

use crate::support::{claim, claiming, completing, response, scattered, ticket};

/// Tells the child of the test below which file to write to.
const WRITE_TO: &str = "LATCHKEY_TEST_WRITE_TO";

/// Every acknowledgement that the killed process printed must be true.
const ACKNOWLEDGED_MIN: usize = 20;

fn open(path: &Path) -> Result<SqliteStore, StoreError> {
    SqliteStore::open(path, SqliteOptions::default(), StoreClock::system())
}

/// Claims and completes key after key, and says so, until it is killed.
async fn write_until_killed(path: &Path) {
    let store = open(path).unwrap();
    for key in 0..=u8::MAX {
        let applied = store.apply(vec![claiming(scattered(key), claim(1))]).await.unwrap();
        let Ok(Reply::Claimed(claimed)) = &applied.results[0] else { panic!("{applied:?}") };
        let ticket = ticket(&claim(1), claimed.clone());
        let batch = vec![completing(scattered(key), &ticket, response(key))];
        store.apply(batch).await.unwrap().results.remove(0).unwrap();
        println!("acknowledged {key}");
    }
    std::thread::sleep(Duration::from_secs(60));
}

#[tokio::test]
async fn what_was_acknowledged_survives_kill_9() {
    if let Ok(path) = std::env::var(WRITE_TO) {
        return write_until_killed(Path::new(&path)).await;
    }
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("latchkey.db");
    let output = directory.path().join("acknowledged");
    let mut child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sqlite::file::what_was_acknowledged_survives_kill_9", "--nocapture"])
        .env(WRITE_TO, &path)
        .stdout(std::fs::File::create(&output).unwrap())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let acknowledged = || {
        let text = std::fs::read_to_string(&output).unwrap();
        let keys = text.lines().filter_map(|line| line.strip_prefix("acknowledged "));
        keys.filter_map(|key| key.parse::<u8>().ok()).collect::<Vec<_>>()
    };
    let deadline = Instant::now() + Duration::from_secs(60);
    while acknowledged().len() < ACKNOWLEDGED_MIN {
        assert!(Instant::now() < deadline, "the child writes nothing");
        assert!(child.try_wait().unwrap().is_none(), "the child has ended");
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    child.kill().unwrap();
    child.wait().unwrap();

    let store = open(&path).unwrap();
    for key in acknowledged() {
        let record = store.get(scattered(key)).await.unwrap();
        assert!(record.is_some_and(|record| !record.unresolved()), "key {key} was acknowledged");
    }
}

#[test]
fn a_file_of_a_newer_schema_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("latchkey.db");
    drop(open(&path).unwrap());
    let raise = |connection: &Connection| connection.pragma_update(None, "user_version", 99);
    raise(&Connection::open(&path).unwrap()).unwrap();

    let Err(StoreError::Unfit(why)) = open(&path) else { panic!("opened") };
    assert!(why.contains("newer Latchkey (schema 99"), "{why}");
    let version: i64 = Connection::open(&path)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, 99);
}

#[test]
fn a_file_that_is_not_ours_is_refused_and_left_alone() {
    let directory = tempfile::tempdir().unwrap();
    let text = directory.path().join("notes.txt");
    std::fs::write(&text, "my notes ".repeat(1000)).unwrap();
    let Err(StoreError::Unfit(why)) = open(&text) else { panic!("opened") };
    assert!(why.contains("not a SQLite file"), "{why}");
    assert_eq!(std::fs::read_to_string(&text).unwrap(), "my notes ".repeat(1000));

    let other = directory.path().join("other.db");
    Connection::open(&other).unwrap().execute_batch("CREATE TABLE theirs (id)").unwrap();
    let Err(StoreError::Unfit(why)) = open(&other) else { panic!("opened") };
    assert!(why.contains("not one of Latchkey's"), "{why}");
}

#[test]
fn a_directory_that_cannot_be_made_is_an_error_that_names_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("file");
    std::fs::write(&file, "").unwrap();
    let Err(StoreError::Unavailable(why)) = open(&file.join("latchkey.db")) else {
        panic!("opened");
    };
    assert!(why.contains("file/latchkey.db"), "{why}");
}

#[cfg(unix)]
#[tokio::test]
async fn only_its_owner_can_read_it() {
    use std::os::unix::fs::PermissionsExt;
    let directory = tempfile::tempdir().unwrap();
    let data = directory.path().join("data/deep");
    let store = open(&data.join("latchkey.db")).unwrap();
    store.stamp().await.unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!(mode(&data), 0o700);
    for entry in std::fs::read_dir(&data).unwrap() {
        let path = entry.unwrap().path();
        assert_eq!(mode(&path), 0o600, "{}", path.display());
    }
}
