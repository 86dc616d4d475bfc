//! The code of README and guides, compiled. It stands here since a published crate cannot include what is outside of it.

#[doc = include_str!("../../README.md")]
struct Readme;

#[doc = include_str!("../../docs/getting-started.md")]
struct GettingStarted;

#[doc = include_str!("../../docs/guarantees.md")]
struct Guarantees;

#[doc = include_str!("../../docs/testing.md")]
struct Testing;

#[doc = include_str!("../../docs/recipes.md")]
struct Recipes;

#[doc = include_str!("../../docs/attribute.md")]
struct Attribute;

#[doc = include_str!("../../docs/choosing.md")]
struct Choosing;

#[doc = include_str!("../../docs/fencing.md")]
struct Fencing;

#[doc = include_str!("../../docs/renewal-and-loss.md")]
struct RenewalAndLoss;

#[doc = include_str!("../../docs/operations.md")]
struct Operations;

#[doc = include_str!("../../docs/performance.md")]
struct Performance;

#[doc = include_str!("../../docs/backends/postgres.md")]
struct BackendPostgres;
