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
        let pod_level = match self.base {
            UtilizationOf::Requests => self.amounts.pod_level_requests.as_deref(),
            // Resources without a pod-level limit have the limits of the containers.
            UtilizationOf::Limits => {
                Some(&*self.amounts.pod_level_limits).filter(|limits| self.find(limits).is_some())
            }
        };
        if let Some(amounts) = pod_level {
            return self.amount(amounts, None);
        }
        let mut sum = MilliValue::ZERO;
        for container in &self.amounts.containers {
            sum = sum.saturating_add(self.of_container(container)?);
        }
        Ok(sum)
    }

    #[inline]
    fn of_container(&self, container: &ContainerResources) -> Result<MilliValue, CalculationError> {
        let amounts = match self.base {
            UtilizationOf::Requests => &container.requests,
            UtilizationOf::Limits => &container.limits,
        };
        self.amount(amounts, Some(&container.name))
    }

    /// The amount among those of a container or, without one, among the pod-level ones.
    #[inline]
    fn amount(
        &self,
        amounts: &[ResourceAmount],
        container: Option<&str>,
    ) -> Result<MilliValue, CalculationError> {
        match self.find(amounts) {
            Some(ResourceAmount { amount: Some(amount), .. }) => Ok(*amount),
            found => Err(self.error(container, found.is_some())),
        }
    }

    #[cold]
    fn error(&self, container: Option<&str>, is_unreadable: bool) -> CalculationError {
        let (base, resource, pod) = (self.base.singular(), self.resource, &self.pod.name);
        let amount = match container {
            Some(container) => {
                format!("{base} for {resource} in container {container} of Pod {pod}")
            }
            None => format!("pod-level {base} for {resource} in Pod {pod}"),
        };
        if is_unreadable {
            CalculationError::UnreadableAmount(amount)
        } else {
            CalculationError::MissingAmount(amount)
        }
    }

    fn find<'b>(&self, amounts: &'b [ResourceAmount]) -> Option<&'b ResourceAmount> {
        amounts.iter().find(|amount| amount.resource == *self.resource)
    }
}
