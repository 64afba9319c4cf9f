//! The namespaces that the controller handles.

/// One namespace, or `None` for all. A controller has one `None`, or one scope per namespace.
pub type Scope = Option<String>;
