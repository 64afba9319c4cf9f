//! The namespaces that the controller handles.

/// One namespace, or all if `None`.
pub type Scope = Option<String>;
