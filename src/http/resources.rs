//! `/v1/resources/{resource}`: who holds a resource.
use super::{
    answer::{Answer, Failure},
    call::Call,
    path::ResourcePath,
};
use ringfence_protocol::{ResourceId, body::Resource};

/// Read who holds a resource, and the greatest fence that is remembered for it.
#[utoipa::path(get, path = "/v1/resources/{*resource}", operation_id = "get_resource", tag = "resources", params(
    ("resource" = ResourceId, Path, description = "The resource id, its `/` as they are."),
    ("consistency" = Option<String>, Query, description = "`stale`: from this node's own state, at once.")),
    responses((status = 200, body = Resource, description = "Its holders; none is an answer too.")))]
pub(super) async fn show(
    call: Call,
    ResourcePath(resource): ResourcePath,
) -> Result<Answer<Resource>, Failure> {
    let consistency = call.parameters()?.consistency()?;
    let read = call.read(consistency, |state, subject, now| state.read_resource(subject, &resource, now));
    let (resource, index) = read.await?;
    Ok(Answer::ok(resource, index))
}
