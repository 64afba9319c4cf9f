//! The request or limit that a utilization is a percentage of.

use super::CalculationError;
use crate::{
    api::{ContainerResources, Pod, ResourceAmount, ResourceAmounts, ResourceName},
    quantity::MilliValue,
    settings::{MetricSettings, RequestsSource, UtilizationOf},
};

/// The request or, depending on the settings, the limit of a pod or of one of its containers.
#[inline]
pub(crate) fn request_or_limit(
    pod: &Pod,
    container: Option<&str>,
    resource: &ResourceName,
    settings: &MetricSettings,
) -> Result<MilliValue, CalculationError> {
    let amounts = match settings.requests {
        RequestsSource::Spec => &pod.resources.spec,
        RequestsSource::Actual => pod.resources.actual(),
    };
    let finder = AmountFinder { pod, amounts, resource, base: settings.utilization_of };
    match container {
        None => finder.whole_pod(),
        Some(name) => {
            let container = amounts.containers.iter().find(|candidate| *candidate.name == *name);
            let container = container.ok_or_else(|| CalculationError::NoContainer {
                container: name.to_owned(),
                pod: pod.name.to_string(),
            })?;
            finder.of_container(container)
        }
    }
}

/// Finds the amounts of one resource in one pod.
struct AmountFinder<'a> {
    pod: &'a Pod,
    amounts: &'a ResourceAmounts,
    resource: &'a ResourceName,
    base: UtilizationOf,
}

impl AmountFinder<'_> {
    fn whole_pod(&self) -> Result<MilliValue, CalculationError> {
        match (self.base, &self.amounts.pod_level_requests) {
            (UtilizationOf::Requests, Some(requests)) => return self.pod_level_request(requests),
            (UtilizationOf::Requests, None) => {}
            (UtilizationOf::Limits, _) => {
                if let Some(limit) = self.find(&self.amounts.pod_level_limits) {
                    let (resource, pod) = self.names();
                    let unreadable = || CalculationError::UnreadablePodLevelLimit { resource, pod };
                    return limit.amount.ok_or_else(unreadable);
                }
            }
        }
        let mut sum = MilliValue::ZERO;
        for container in &self.amounts.containers {
            sum = sum.saturating_add(self.of_container(container)?);
        }
        Ok(sum)
    }

    fn pod_level_request(
        &self,
        requests: &[ResourceAmount],
    ) -> Result<MilliValue, CalculationError> {
        let request = self.find(requests);
        if let Some(ResourceAmount { amount: Some(amount), .. }) = request {
            return Ok(*amount);
        }
        let (resource, pod) = self.names();
        Err(if request.is_none() {
            CalculationError::MissingPodLevelRequest { resource, pod }
        } else {
            CalculationError::UnreadablePodLevelRequest { resource, pod }
        })
    }

    #[inline]
    fn of_container(&self, container: &ContainerResources) -> Result<MilliValue, CalculationError> {
        let amount = self.find(match self.base {
            UtilizationOf::Requests => &container.requests,
            UtilizationOf::Limits => &container.limits,
        });
        match amount {
            Some(ResourceAmount { amount: Some(amount), .. }) => Ok(*amount),
            _ => Err(self.container_error(container, amount)),
        }
    }

    #[cold]
    fn container_error(
        &self,
        container: &ContainerResources,
        amount: Option<&ResourceAmount>,
    ) -> CalculationError {
        let (resource, pod) = self.names();
        let container = container.name.to_string();
        match (self.base, amount.is_none()) {
            (UtilizationOf::Requests, true) => {
                CalculationError::MissingRequest { resource, container, pod }
            }
            (UtilizationOf::Requests, false) => {
                CalculationError::UnreadableRequest { resource, container, pod }
            }
            (UtilizationOf::Limits, true) => {
                CalculationError::MissingLimit { resource, container, pod }
            }
            (UtilizationOf::Limits, false) => {
                CalculationError::UnreadableLimit { resource, container, pod }
            }
        }
    }

    fn names(&self) -> (String, String) {
        (self.resource.to_string(), self.pod.name.to_string())
    }

    fn find<'b>(&self, amounts: &'b [ResourceAmount]) -> Option<&'b ResourceAmount> {
        amounts.iter().find(|amount| amount.resource == *self.resource)
    }
}
