//! The identity of an instance in the lease.

use uuid::Uuid;

/// A unique identity, in client-go's format: the host name, `_`, and a random UUID. A restarted
/// instance gets another one.
pub fn identity() -> String {
    let host = rustix::system::uname().nodename().to_string_lossy().into_owned();
    format!("{host}_{}", Uuid::new_v4())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identity_is_unique_and_ends_with_a_uuid() {
        let (one, other) = (identity(), identity());
        assert_ne!(one, other);
        assert_eq!(one.rsplit('_').next().expect("a UUID").len(), 36);
    }
}
