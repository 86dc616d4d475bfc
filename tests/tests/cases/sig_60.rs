// sig 60
// kind: raw identifier argument r#type; _unused argument; error type by path
// key wished: "prompt:{type}"  and  "prompt:{r#type}"
// contention wished: wait
// trap: is it {type} or {r#type} in the template? `type` is not a parsable expression; format!("{type}") and format!("{r#type}") differ too
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum PromptType {
    User,
    System,
}
impl std::fmt::Display for PromptType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::User => "user",
            Self::System => "system",
        })
    }
}
pub mod errors {
    #[derive(Debug)]
    pub struct Error;
}

#[lockrt::distributed_lock(key = "prompt:{r#type:display}", ttl_ms = 5_000, on_contention = wait(timeout_ms = 2_000))]
pub async fn remove(_org_id: &str, r#type: PromptType) -> Result<(), errors::Error> {
    if r#type == PromptType::System {
        return Err(errors::Error);
    }
    Ok(())
}

impl From<lockrt::LockError> for errors::Error {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
