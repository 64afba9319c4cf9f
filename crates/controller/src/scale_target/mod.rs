//! Scale targets: which resource a `scaleTargetRef` names, and the scale of one.

mod discovery;
mod mapper;
mod names;
mod scale;
#[cfg(test)]
mod tests;

pub use mapper::{GroupKind, MapperConfig, MapperError, Mapping, RestMapper, parse_api_version};
pub use scale::{ScaleClient, ScaleError, ScaleObject};
