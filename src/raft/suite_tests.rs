//! openraft's own test suite of storage, on the real log and real snapshots.
use super::{log_store::LogStore, replica::StateMachine, types::TypeConfig};
use crate::storage::{
    log::{Recovered, Wal, WalOptions},
    snapshot::SnapshotStore,
};
use openraft::{
    StorageError,
    testing::log::{StoreBuilder, Suite},
};
use std::sync::Arc;
use tempfile::TempDir;

struct OnDisk;

impl StoreBuilder<TypeConfig, LogStore, StateMachine, TempDir> for OnDisk {
    async fn build(&self) -> Result<(TempDir, LogStore, StateMachine), StorageError<TypeConfig>> {
        let folder = tempfile::tempdir().unwrap();
        let options = WalOptions { segment_bytes: 64 << 10, ..WalOptions::new(1) };
        let wal = Wal::create(&folder.path().join("log"), options).unwrap();
        let log = LogStore::new(wal, &Recovered::default()).unwrap();
        let snapshots = Arc::new(SnapshotStore::open(&folder.path().join("snapshots")).unwrap());
        Ok((folder, log, StateMachine::open(snapshots).unwrap()))
    }
}

#[test]
fn the_log_and_the_state_machine_pass_openrafts_own_storage_suite() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(Suite::test_all(OnDisk)).unwrap();
}
