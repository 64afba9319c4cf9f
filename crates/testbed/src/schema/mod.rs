//! The fields of the built-in kinds: for JSON and protobuf bodies, for field validation, and for
//! `OpenAPI`.

mod decode;
mod message;
pub(crate) mod openapi;
mod protobuf;
mod shape;
mod wire;

pub(crate) use self::{
    decode::{DecodeError, Decoded, decode_json, decode_value},
    message::message_for_kind,
    protobuf::{decode_protobuf, is_protobuf},
    shape::Shape,
};
