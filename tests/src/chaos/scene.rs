//! One class of faults at one lock service.

use std::fmt;

use super::class::Class;

/// Who grants the locks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Store {
    Redis,
    Postgres,
}

/// What is run as one, and has a line in the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Scene {
    pub(super) store: Store,
    pub(super) class: Class,
}

impl Scene {
    /// All of them, in the order in which they are run.
    pub(super) fn all() -> impl Iterator<Item = Self> {
        let on = |store| move |class| Self { store, class };
        let redis = Class::REDIS.into_iter().map(on(Store::Redis));
        redis.chain(Class::POSTGRES.into_iter().map(on(Store::Postgres)))
    }

    /// Its name in arguments and in the table.
    pub(super) fn name(self) -> String {
        match self.store {
            Store::Redis => self.class.name().to_owned(),
            Store::Postgres => format!("postgres-{}", self.class.name()),
        }
    }
}

impl fmt::Display for Scene {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.name())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_scene_has_a_name_of_its_own() {
        let mut names: Vec<String> = Scene::all().map(Scene::name).collect();
        names.sort_unstable();
        let before = names.len();
        names.dedup();
        assert_eq!(names.len(), before, "{names:?}");
    }
}
