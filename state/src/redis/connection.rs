//! The connection, and how a pipeline of scripts goes over it.
//!
//! One connection carries everything; it is made again by itself when it breaks. While Redis is
//! away every operation is answered at once, or within the time-out, that the store is
//! unavailable; nothing is queued for later, since whoever asked has gone by then.

use std::time::Duration;

use redis::aio::{ConnectionManager, ConnectionManagerConfig};
use redis::io::tcp::TcpSettings;
use redis::{
    Client, ErrorKind, IntoConnectionInfo, Pipeline, RedisError, RedisResult, ServerErrorKind,
    Value,
};

use super::scripts::{Script, Scripts};
use crate::StoreError;

/// The one eviction policy that never drops a live claim.
const POLICY: &str = "noeviction";

/// How soon a failed attempt to connect is repeated, while operations wait. They wait for one
/// repetition; after it they are told, and the next operation tries again.
const RECONNECT_DELAY: Duration = Duration::from_millis(50);

/// How many pipelines may wait to be written. More senders than this wait to get in.
const PIPELINES_MAX: usize = 1024;

/// One run of a script.
#[derive(Debug)]
pub(super) struct Call {
    pub(super) script: Script,
    pub(super) keys: Vec<String>,
    pub(super) args: Vec<Vec<u8>>,
}

/// The connection.
#[derive(Debug)]
pub(super) struct Connection {
    manager: ConnectionManager,
    scripts: Scripts,
    timeout: Duration,
}

impl Connection {
    pub(super) async fn open(url: &str, timeout: Duration) -> Result<Self, StoreError> {
        // The URL may hold a password: it is in no message.
        let unfit = |error: RedisError| StoreError::Unfit(format!("Redis URL: {error}"));
        // A peer that is gone without a word is given up as soon as one that refuses.
        let tcp = TcpSettings::default().set_nodelay(true);
        #[cfg(any(target_os = "linux", target_os = "android", target_os = "fuchsia"))]
        let tcp = tcp.set_user_timeout(timeout);
        let info = url.into_connection_info().map_err(unfit)?.set_tcp_settings(tcp);
        let client = Client::open(info).map_err(unfit)?;
        let config = ConnectionManagerConfig::new()
            .set_connection_timeout(Some(timeout))
            .set_response_timeout(Some(timeout))
            .set_number_of_retries(1)
            .set_min_delay(RECONNECT_DELAY)
            .set_max_delay(RECONNECT_DELAY)
            .set_pipeline_buffer_size(PIPELINES_MAX);
        let connecting = ConnectionManager::new_with_config(client, config).await;
        let manager = connecting.map_err(|error| {
            let refused = [ErrorKind::AuthenticationFailed, ErrorKind::InvalidClientConfig];
            if refused.contains(&error.kind()) {
                return StoreError::Unfit(format!("Redis: {error}"));
            }
            unavailable(&error)
        })?;
        let connection = Self { manager, scripts: Scripts::new(), timeout };
        connection.check_policy().await?;
        Ok(connection)
    }

    /// Refuses a Redis that may drop claims to make room.
    async fn check_policy(&self) -> Result<(), StoreError> {
        let mut config = redis::cmd("CONFIG");
        config.arg("GET").arg("maxmemory-policy");
        let mut manager = self.manager.clone();
        let asked: RedisResult<Vec<String>> =
            self.in_time(config.query_async(&mut manager)).await?;
        match asked.as_deref() {
            Ok([_, policy]) if policy == POLICY => Ok(()),
            Ok([_, policy]) => Err(StoreError::Unfit(format!(
                "Redis' maxmemory-policy is `{policy}`, which drops live claims when memory runs \
                 out; set it to `{POLICY}`"
            ))),
            Ok(_) => Err(StoreError::Unavailable("Redis: no answer to CONFIG GET".to_owned())),
            Err(error) if error.is_io_error() => Err(unavailable(error)),
            Err(error) => {
                tracing::warn!(
                    %error,
                    "cannot read Redis' maxmemory-policy; see to it that it is `{POLICY}`, \
                     since any other drops live claims when memory runs out",
                );
                Ok(())
            }
        }
    }

    /// Runs `calls` as one pipeline. Where Redis does not know the scripts (it forgets them
    /// when it restarts), loads them and runs again those that were not run.
    ///
    /// Calls of one pipeline run in their order, but for one case: another server loads the
    /// scripts while this pipeline is on its way, so that the first calls find none and the
    /// last ones do.
    pub(super) async fn run(
        &self,
        calls: &[Call],
    ) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        if calls.is_empty() {
            return Ok(Vec::new());
        }
        self.in_time(self.run_all(calls)).await?
    }

    async fn run_all(&self, calls: &[Call]) -> Result<Vec<Result<Value, StoreError>>, StoreError> {
        let mut results = self.send(calls.iter()).await?;
        let unknown = |result: &RedisResult<Value>| {
            let no_script = ErrorKind::Server(ServerErrorKind::NoScript);
            result.as_ref().is_err_and(|error| error.kind() == no_script)
        };
        if results.iter().any(unknown) {
            self.load().await?;
            let again = results.iter().zip(calls).filter(|(result, _)| unknown(result));
            let mut answers = self.send(again.map(|(_, call)| call)).await?.into_iter();
            for result in results.iter_mut().filter(|result| unknown(result)) {
                if let Some(answer) = answers.next() {
                    *result = answer;
                }
            }
        }
        Ok(results.into_iter().map(|it| it.map_err(|error| unavailable(&error))).collect())
    }

    /// Runs plain commands that read.
    pub(super) async fn read(&self, pipeline: &Pipeline) -> Result<Vec<Value>, StoreError> {
        let mut manager = self.manager.clone();
        let read = self.in_time(pipeline.query_async(&mut manager)).await?;
        read.map_err(|error| unavailable(&error))
    }

    async fn send(
        &self,
        calls: impl Iterator<Item = &Call>,
    ) -> Result<Vec<RedisResult<Value>>, StoreError> {
        let mut pipeline = redis::pipe();
        for call in calls {
            pipeline.cmd("EVALSHA").arg(self.scripts.digest(call.script));
            pipeline.arg(call.keys.len()).arg(&call.keys).arg(&call.args);
        }
        let mut manager = self.manager.clone();
        let sent = pipeline.ignore_errors().query_async(&mut manager).await;
        sent.map_err(|error| unavailable(&error))
    }

    async fn load(&self) -> Result<(), StoreError> {
        let mut pipeline = redis::pipe();
        for load in self.scripts.load() {
            pipeline.add_command(load).ignore();
        }
        let mut manager = self.manager.clone();
        let loaded: RedisResult<()> = pipeline.query_async(&mut manager).await;
        loaded.map_err(|error| unavailable(&error))
    }

    async fn in_time<T>(&self, work: impl Future<Output = T>) -> Result<T, StoreError> {
        tokio::time::timeout(self.timeout, work).await.map_err(|_| {
            let ms = self.timeout.as_millis();
            StoreError::Unavailable(format!("Redis did not answer within {ms} ms"))
        })
    }
}

fn unavailable(error: &RedisError) -> StoreError {
    StoreError::Unavailable(format!("Redis: {error}"))
}
