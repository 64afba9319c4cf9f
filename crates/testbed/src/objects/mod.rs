//! Creating, changing and deleting objects: one path for PUT, PATCH, the scale and the testbed itself.

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
