//! The fields of the built-in kinds: for JSON and protobuf bodies, for field validation, and for
//! `OpenAPI`.

mod decode;
mod message;
pub(crate) mod openapi;
mod protobuf;

pub(crate) use self::{
    decode::{DecodeError, DecodedObject, FieldProblem, decode_json, decode_value},
    message::{Shape, message_for_kind},
    protobuf::{decode_protobuf, is_protobuf},
};
