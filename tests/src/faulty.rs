//! The suite's faulty lock service, as a setup for other cases.

use std::time::Duration;

use lockrt::conformance::lock::Faulty;
use lockrt::{LockManager, testing};

use crate::Setup;

impl Setup for Faulty {
    const SLACK: Duration = Duration::from_millis(50);

    fn manager(&self) -> LockManager {
        testing::manager(self.clone())
    }

    async fn held(&self) -> usize {
        self.client().held()
    }
}
