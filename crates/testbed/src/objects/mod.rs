//! Creates, updates and deletes stored objects, with validation, defaults and generations.
//!
//! PUT, PATCH, the scale subresource and [`Testbed`](crate::Testbed) all use these functions.

mod admission;
mod checks;
mod create;
mod delete;
mod update;

pub(crate) use self::{
    admission::{admit_status, negative},
    checks::{check_namespace, check_uid, check_version_given, not_convertible},
    create::create,
    delete::{Deleted, delete},
    update::update,
};
