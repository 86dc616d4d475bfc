// sig 59
// kind: free fn; const generic N used by an array argument; type parameter with bounds inline; `mut new_column`
// key wished: "migrate:{table_name.name()}"
// contention wished: wait
// trap: the transaction is moved in and handed back through Ok
pub trait Iden {
    fn name(&self) -> &'static str;
}
pub struct Tx(u32);
pub struct Col(String);
#[derive(Debug)]
pub struct DbErr;

#[lockrt::distributed_lock(key = "migrate:{table_name.name()}", ttl_ms = 60_000, on_contention = wait(timeout_ms = 2_000))]
async fn replace_column<I: Iden + Copy + 'static, const N: usize>(
    transaction: Tx,
    table_name: I,
    column_name: I,
    mut new_column: Col,
    update_values: [&str; N],
) -> Result<Tx, DbErr> {
    new_column.0.push_str(column_name.name());
    if N == 0 {
        return Err(DbErr);
    }
    let _ = (table_name, update_values[N - 1]);
    Ok(transaction)
}

impl From<lockrt::LockError> for DbErr {
    fn from(error: lockrt::LockError) -> Self {
        drop(error);
        Self
    }
}
