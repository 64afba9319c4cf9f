use rstest::rstest;

use super::*;

#[rstest]
#[case::quoted(r"^\Qa.b\Ec$", "a.bc", "axbc")]
#[case::octal(r"^\07\101$", "\u{7}A", "7A")]
#[case::hexadecimal(r"^\x41\x{1F600}$", "A\u{1f600}", "x41")]
#[case::literal_brace("^a{,2}{x}$", "a{,2}{x}", "aa")]
#[case::counted("^a{2,3}$", "aaa", "a")]
#[case::class_operators_are_literals("^[a&&b]+$", "a&b", "c")]
#[case::first_bracket("^[]a]+$", "]a", "b")]
#[case::hyphens("^[-a-c-]+$", "-b", "d")]
#[case::posix("^[[:alpha:][:^digit:]]$", "x", "1")]
#[case::ascii_digit(r"^\d$", "1", "\u{663}")]
#[case::ascii_word(r"^\w$", "a", "ä")]
#[case::underscore_is_a_word_character(r"^\w[\w]$", "__", "_-")]
#[case::not_word(r"^\W$", "ä", "a")]
#[case::ascii_boundary(r"\bb", "äb", "ab")]
#[case::not_boundary(r"a\Bb", "ab", "a b")]
#[case::unicode(r"^\p{Greek}\pL$", "αb", "bα")]
#[case::negated_unicode(r"^\p{^Greek}\PL$", "b1", "α1")]
#[case::ignore_case("(?i)^HTTP", "http_", "ftp")]
#[case::ignore_case_of_a_group("^a(?i:b)c$", "aBc", "aBC")]
#[case::flags_end_with_the_group("^(?:(?i)a)b$", "Ab", "AB")]
#[case::flags_apply_to_later_alternatives("^(?:x|(?i)a|b)$", "B", "X")]
#[case::unset_flag("(?i)^a(?-i)b$", "Ab", "AB")]
#[case::dot("^a.b$", "axb", "a\nb")]
#[case::dot_all("(?s)^a.b$", "a\nb", "ab")]
#[case::end_is_the_end("^a$", "a", "a\n")]
#[case::multi_line("(?m)^b$", "a\nb\nc", "ab")]
#[case::text_bounds(r"(?m)\Ab\z", "b", "a\nb")]
#[case::empty_alternative("^(|a)b$", "b", "cb")]
#[case::repeated_group("^(?:ab)+$", "abab", "aba")]
#[case::repeated_literal_only("^ab*$", "abb", "abab")]
#[case::group_starting_with_a_digit("^(?P<1a>b)$", "b", "a")]
#[case::surrogates(r"^[\x{D7FF}-\x{E000}]$", "\u{e000}", "\u{e001}")]
#[case::space_is_literal("^a b$", "a b", "ab")]
#[case::lazy_flag("(?U)^(a+)(a*)$", "aa", "b")]
fn regex_matches_like_in_go(#[case] expression: &str, #[case] yes: &str, #[case] no: &str) {
    let regex = GoRegex::new(expression).unwrap();
    assert!(regex.is_match(yes), "{yes:?}");
    assert!(!regex.is_match(no), "{no:?}");
}

#[rstest]
#[case::paren("^(a", "missing closing )", "^(a")]
#[case::right_paren("a)", "unexpected )", "a)")]
#[case::bracket("a[b", "missing closing ]", "[b")]
#[case::repetition("a**", "invalid nested repetition operator", "**")]
#[case::lazy_repetition("a*?+", "invalid nested repetition operator", "*?+")]
#[case::counts("x{2}{3}", "invalid nested repetition operator", "{2}{3}")]
#[case::nothing("*", "missing argument to repetition operator", "*")]
#[case::nothing_in_group("(+)", "missing argument to repetition operator", "+")]
#[case::nothing_in_alternative("a|?", "missing argument to repetition operator", "?")]
#[case::too_many("x{1001}", "invalid repeat count", "{1001}")]
#[case::too_many_nested("(?:x{100}){11}", "invalid repeat count", "{11}")]
#[case::reversed("x{3,2}", "invalid repeat count", "{3,2}")]
#[case::range("[z-a]", "invalid character class range", "z-a")]
#[case::posix("[[:foo:]]", "invalid character class range", "[:foo:]")]
#[case::property(r"\p{Alphabetic}", "invalid character class range", r"\p{Alphabetic}")]
#[case::back_reference(r"(a)\1", "invalid escape sequence", r"\1")]
#[case::byte(r"\C", "invalid escape sequence", r"\C")]
#[case::end_of_text(r"a\Z", "invalid escape sequence", r"\Z")]
#[case::letter(r"\y", "invalid escape sequence", r"\y")]
#[case::hexadecimal(r"\x{110000}", "invalid escape sequence", r"\x{110000")]
#[case::look_ahead("(?!a)", "invalid or unsupported Perl syntax", "(?!")]
#[case::verbose("(?x)a", "invalid or unsupported Perl syntax", "(?x")]
#[case::name("(?P<a-b>c)", "invalid named capture", "(?P<a-b>")]
#[case::look_behind("(?<=a)", "invalid named capture", "(?<=a)")]
#[case::backslash("a\\", "trailing backslash at end of expression", "")]
fn invalid_regex_is_refused_like_in_go(
    #[case] expression: &str,
    #[case] problem: &str,
    #[case] part: &str,
) {
    let error = GoRegex::new(expression).unwrap_err().to_string();
    assert_eq!(error, format!("error parsing regexp: {problem}: `{part}`"));
}

#[test]
fn too_large_or_deep_expressions_are_refused() {
    let too_large = RegexProblem::TooLarge;
    let long = "a".repeat(MAX_REGEX_LEN + 1);
    assert_eq!(GoRegex::new(&long).unwrap_err().problem, too_large);
    let wide = r"\pL{1000}".repeat(50);
    assert_eq!(GoRegex::new(&wide).unwrap_err().problem, too_large);
    // Smaller than the expression before, but above 1 MiB.
    assert_eq!(GoRegex::new(&r"\pL".repeat(100)).unwrap_err().problem, too_large);
    // A search would need a gigabyte for the bounds of the groups in each state.
    let groups = "(m)?".repeat(3400);
    assert_eq!(GoRegex::new(&groups).unwrap_err().problem, too_large);
    GoRegex::new(&"(m)?".repeat(100)).unwrap();
    let deep = "(".repeat(1000);
    assert_eq!(GoRegex::new(&deep).unwrap_err().problem, RegexProblem::TooDeep);
}

#[test]
fn memory_of_a_search_is_bounded_by_the_first_sufficient_limit() {
    let size = |expression: &str| GoRegex::new(expression).unwrap().max_search_size();
    assert_eq!(size(".*"), 1 << 12);
    assert_eq!(size("^(.*)_total$"), 2 << 12);
    assert!(size("[a-z]{1000}") > 1 << 12);
    assert_eq!(GoRegex::with_size_limit("a", 5000).unwrap().max_search_size(), 5000);
}

/// As in Go, a reference with a leading zero is a name.
#[test]
fn reference_that_expands_to_nothing_is_unknown() {
    let regex = GoRegex::new("^(?P<a>.*)$").unwrap();
    for (template, expanded, unknown) in [
        ("$0 ${1} $a", "x x x", &[][..]),
        ("$01", "", &["01"]),
        ("${00}", "", &["00"]),
        ("$2 $b $+", "  $+", &["2", "b"]),
        ("$1²", "x²", &[]),
    ] {
        assert_eq!(regex.expand(template, "x").as_deref(), Some(expanded));
        assert_eq!(regex.unknown_references(template), unknown);
    }
}
