use super::*;

#[test]
fn description_has_no_credentials() {
    let error = MetricError::Transport {
        request: "get pods.metrics.k8s.io".into(),
        source: Arc::new(io::Error::other(
            "proxy http://me:se@cret@proxy:3128/x and https://you@b refused",
        )),
    };
    let message = "unable to fetch metrics from resource metrics API: \
                   request failed (get pods.metrics.k8s.io): \
                   proxy http://proxy:3128/x and https://b refused";
    assert_eq!(error.into_read_error(MetricsApi::Resource).to_string(), message);
}

#[test]
fn failure_of_the_metrics_api_precedes_the_absence_of_a_rule() {
    let describe_absent = |api_error| {
        let absence = "no rule has queue".into();
        describe(&MetricError::Absent { absence, api_error: Box::new(api_error) })
    };
    let request = || "get queue.external.metrics.k8s.io".into();
    let limit = Duration::from_secs(10);
    let late = describe_absent(MetricError::Timeout { limit, request: request() });
    let expected = "context deadline exceeded: no response within 10s (get \
                    queue.external.metrics.k8s.io); no rule has queue";
    assert_eq!(late, expected);
    assert!(!error_texts::is_in_process(&late), "the API is the cause");
    let source = Arc::new(io::Error::other("refused"));
    let refused = describe_absent(MetricError::Transport { request: request(), source });
    let expected = "request failed (get queue.external.metrics.k8s.io): refused; no rule has queue";
    assert_eq!(refused, expected);
}

#[test]
fn errors_of_sources_in_the_process_are_recognized() {
    let other = || io::Error::other("down");
    let reason = || NotFound::External("queue".to_owned());
    for error in [
        MetricError::from_fetch_error(other()),
        MetricError::from_query_build_error(other()),
        MetricError::from_conversion_error(other()),
        MetricError::UnknownMetric(reason()),
        MetricError::NoValueForObject(reason()),
        MetricError::NoValue(reason()),
        MetricError::Absent {
            absence: "no rule has queue".into(),
            api_error: Box::new(MetricError::NoCustomApi),
        },
    ] {
        assert!(error_texts::is_in_process(&describe(&error)), "{error}");
    }
    for error in [MetricError::NoCustomApi, MetricError::Unresponsive(MetricsApi::Custom)] {
        assert!(!error_texts::is_in_process(&describe(&error)), "{error}");
    }
}

#[test]
fn missing_metric_and_missing_value_are_not_found() {
    let reason = || NotFound::External("queue".to_owned());
    for error in [
        MetricError::UnknownMetric(reason()),
        MetricError::NoValueForObject(reason()),
        MetricError::NoValue(reason()),
    ] {
        assert!(error.is_not_found(), "{error}");
    }
    assert!(!MetricError::Unresponsive(MetricsApi::Custom).is_not_found());
}

#[test]
fn cause_that_the_error_repeats_is_printed_once() {
    #[derive(Debug, thiserror::Error)]
    #[error("outer: inner")]
    struct Outer(#[source] io::Error);
    assert_eq!(with_causes(&Outer(io::Error::other("inner"))), "outer: inner");
}

#[test]
fn error_of_the_api_server_is_its_message() {
    let status = kube::core::Status::failure("configmaps is forbidden", "Forbidden");
    let error = kube::Error::Api(Box::new(status));
    assert_eq!(describe(&error), "configmaps is forbidden: Forbidden");
}

#[test]
fn kube_error_as_a_cause_has_no_prefix_or_debug_text() {
    #[derive(Debug, thiserror::Error)]
    #[error("unable to read")]
    struct Outer(#[source] kube::Error);
    let status = kube::core::Status::failure("configmaps is forbidden", "Forbidden");
    let refused = Outer(kube::Error::Api(Box::new(status)));
    assert_eq!(with_causes(&refused), "unable to read: configmaps is forbidden: Forbidden");
    let failed = Outer(kube::Error::Service(io::Error::other("connection refused").into()));
    assert_eq!(with_causes(&failed), "unable to read: connection refused");
    let cut = kube::Error::Service(io::Error::other("error reading a body").into());
    let cut = Arc::new(io::Error::other(cut));
    assert_eq!(with_causes(&cut), "error reading a body");
}

#[test]
fn error_of_a_watcher_has_no_debug_text() {
    let status = kube::core::Status::failure("nodes is forbidden", "Forbidden");
    let forbidden = watcher::Error::InitialListFailed(kube::Error::Api(Box::new(status)));
    assert_eq!(describe(&forbidden), "unable to list the objects: nodes is forbidden: Forbidden");
    let refused = kube::Error::Service(io::Error::other("connection refused").into());
    let refused = watcher::Error::WatchStartFailed(refused);
    assert_eq!(describe(&refused), "unable to start the watch: connection refused");
    let undecodable = kube::Error::Api(Box::default());
    assert_eq!(
        describe(&watcher::Error::WatchFailed(undecodable)),
        "the watch has failed: the API server sent an event that can't be decoded"
    );
}

#[test]
fn cause_of_a_connection_error_is_plain() {
    let flags = TlsSettingNames { ca: "--ca-file", client_certificate: "--cert and --key" };
    let none = TlsSettingNames::default();
    let tls = "received corrupt message of type InvalidContentType";
    let cause = |text: &str, settings| connection_cause(&io::Error::other(text), settings);
    let certificate = "received fatal alert: CertificateRequired";
    let required = "the server requires a client certificate";
    assert_eq!(cause(certificate, flags), format!("{required}: set it with --cert and --key"));
    assert_eq!(cause(certificate, none), required);
    let refused = "the server refuses the client certificate, or requires one";
    let bad = "received fatal alert: BadCertificate";
    assert_eq!(cause(bad, flags), format!("{refused}: set it with --cert and --key"));
    assert_eq!(cause(bad, none), refused);
    assert_eq!(cause(tls, flags), "the server doesn't speak TLS: use http://");
    let unknown = "invalid peer certificate: UnknownIssuer";
    let expected = "the certificate of the server was issued by an unknown CA";
    assert_eq!(cause(unknown, flags), format!("{expected}: set its CA with --ca-file"));
    assert_eq!(cause(unknown, none), expected);
    let ca = cause("invalid peer certificate: Other(OtherError(CaUsedAsEndEntity))", flags);
    assert_eq!(
        ca,
        "the certificate of the server is that of a CA: issue one with basicConstraints CA:FALSE"
    );
    let version_1 = "invalid peer certificate: Other(OtherError(UnsupportedCertVersion))";
    let expected = "the certificate of the server has X.509 version 1: issue one of version 3";
    assert!(cause(version_1, flags).starts_with(expected));
    assert_eq!(cause("Connection refused (os error 111)", flags), "Connection refused");
    assert_eq!(cause("certificate expired", flags), "certificate expired");
}

/// The cause of a connection that fails because of the server's certificate. `problem` is the text
/// of rustls.
fn certificate_cause(problem: &str) -> String {
    let error = io::Error::other(format!("invalid peer certificate: certificate {problem}"));
    connection_cause(&error, TlsSettingNames::default())
}

#[test]
fn cause_of_an_expired_certificate_does_not_contain_the_current_time() {
    for now in [1_795_873_954, 1_795_873_969] {
        let expired = certificate_cause(&format!(
            "expired: verification time {now} (UNIX), but certificate is not valid after \
             1738368000 ({} seconds ago)",
            now - 1_738_368_000
        ));
        assert_eq!(expired, "the certificate of the server expired on 2025-02-01");
        let early = certificate_cause(&format!(
            "not valid yet: verification time {now} (UNIX), but certificate is not valid before \
             1798761600 ({} seconds in future)",
            1_798_761_600 - now
        ));
        let expected = "the certificate of the server is not valid before 2027-01-01T00:00:00Z";
        assert_eq!(early, expected);
    }
    assert_eq!(certificate_cause("expired"), "the certificate of the server has expired");
    assert_eq!(
        certificate_cause("not valid yet"),
        "the certificate of the server is not valid yet"
    );
}

#[test]
fn cause_of_a_certificate_for_other_names_lists_the_first_ones() {
    let cause = |names: &str| {
        certificate_cause(&format!("not valid for name \"prom.example\"; certificate {names}"))
    };
    let start = "the certificate of the server is";
    assert_eq!(
        cause("is only valid for DnsName(\"*.a.example\") or IpAddress(10.0.0.1)"),
        format!("{start} valid for *.a.example, 10.0.0.1, not for prom.example")
    );
    let many = ["DnsName(\"a\")"; 7].join(", ");
    assert_eq!(
        cause(&format!("is only valid for {many}")),
        format!("{start} valid for a, a, a, a, a and 2 more, not for prom.example")
    );
    assert_eq!(
        cause("is not valid for any names (according to its subjectAltName extension)"),
        format!("{start} not valid for prom.example: it has no names")
    );
}

#[test]
fn long_description_is_cut_between_characters() {
    let error = io::Error::other("é".repeat(4096));
    let text = describe(&error);
    assert_eq!((text.len(), text.chars().count()), (4096, 2048));
    let odd = io::Error::other(format!("x{}", "é".repeat(4096)));
    assert_eq!(describe(&odd).len(), 4095);
}
