//! Mathematical functions, with the names of Go's package math.

use std::f64::consts;

use hpa_go_compat::truncate_to_i64;

type Calculation = fn(f64) -> f64;

const FUNCTIONS: [(&str, Calculation); 37] = [
    ("abs", f64::abs),
    ("acos", libm::acos),
    ("acosh", libm::acosh),
    ("asin", libm::asin),
    ("asinh", libm::asinh),
    ("atan", libm::atan),
    ("atanh", libm::atanh),
    ("cbrt", libm::cbrt),
    ("ceil", f64::ceil),
    ("cos", libm::cos),
    ("cosh", libm::cosh),
    ("erf", libm::erf),
    ("erfc", libm::erfc),
    ("erfcinv", inverse_erfc),
    ("erfinv", inverse_erf),
    ("exp", exp),
    ("exp2", libm::exp2),
    ("expm1", libm::expm1),
    ("floor", f64::floor),
    ("gamma", libm::tgamma),
    ("j0", libm::j0),
    ("j1", libm::j1),
    ("log", libm::log),
    ("log10", libm::log10),
    ("log1p", libm::log1p),
    ("log2", libm::log2),
    ("logb", binary_exponent),
    ("round", f64::round),
    ("roundtoeven", f64::round_ties_even),
    ("sin", libm::sin),
    ("sinh", libm::sinh),
    ("sqrt", f64::sqrt),
    ("tan", libm::tan),
    ("tanh", libm::tanh),
    ("trunc", f64::trunc),
    ("y0", libm::y0),
    ("y1", libm::y1),
];

/// Finds a function of one number. Returns its name as `'static`, and the function.
pub(crate) fn find_function(name: &str) -> Option<(&'static str, Calculation)> {
    FUNCTIONS.into_iter().find(|(other, _)| *other == name)
}

pub(crate) fn find_constant(name: &str) -> Option<f64> {
    const PHI: f64 = 1.618_033_988_749_895;
    Some(match name {
        "e" => consts::E,
        "pi" => consts::PI,
        "phi" => PHI,
        "sqrt2" => consts::SQRT_2,
        "sqrte" => 1.648_721_270_700_128_2,
        "sqrtpi" => 1.772_453_850_905_516,
        "sqrtphi" => 1.272_019_649_514_069,
        "ln2" => consts::LN_2,
        "log2e" => consts::LOG2_E,
        "ln10" => consts::LN_10,
        "log10e" => consts::LOG10_E,
        _ => return None,
    })
}

/// The exponential function, as in Go's assembly for amd64 with fused operations. In the last bit,
/// its results may differ from those of libm: here, `exp(1)` is exactly `e`. The method is that of
/// the library SLEEF: a Taylor series for a sixteenth of the remainder, squared four times.
#[expect(clippy::excessive_precision, reason = "the constants as Go has them")]
fn exp(number: f64) -> f64 {
    const LN2_UPPER: f64 = 0.693_147_180_559_662_956_511_601_805_686_950_683_593_75;
    const LN2_LOWER: f64 = 0.282_352_905_630_315_771_225_884_481_750_134_360_255_254_120_68e-12;
    const MAX: f64 = 7.097_827_128_933_84e2;
    // 1/8!, 1/7!, ... 1/2!, 1
    const TAYLOR: [f64; 8] = [
        2.480_158_730_158_730_158_7e-5,
        1.984_126_984_126_984_127_0e-4,
        1.388_888_888_888_888_888_9e-3,
        8.333_333_333_333_333_333_3e-3,
        4.166_666_666_666_666_666_7e-2,
        1.666_666_666_666_666_666_7e-1,
        0.5,
        1.0,
    ];
    if number.is_nan() {
        return number;
    }
    if number > MAX {
        return f64::INFINITY;
    }
    // Below the smallest subnormal number.
    if number < -746.0 {
        return 0.0;
    }
    let exponent = (number * consts::LOG2_E).round_ties_even();
    let remainder = (-LN2_LOWER).mul_add(exponent, (-LN2_UPPER).mul_add(exponent, number)) / 16.0;
    let series = TAYLOR.into_iter().reduce(|sum, term| sum.mul_add(remainder, term));
    let mut result = remainder * series.unwrap_or(1.0);
    for _ in 0..4 {
        result *= result + 2.0;
    }
    #[expect(clippy::cast_possible_truncation, reason = "between -1077 and 1024")]
    libm::ldexp(result + 1.0, exponent as i32)
}

/// The exponent of the number in base 2.
fn binary_exponent(number: f64) -> f64 {
    if number == 0.0 {
        f64::NEG_INFINITY
    } else if number.is_infinite() {
        f64::INFINITY
    } else if number.is_nan() {
        number
    } else {
        f64::from(libm::ilogb(number))
    }
}

/// The inverse of the complementary error function, with the precision of ajson.
fn inverse_erfc(number: f64) -> f64 {
    inverse_erf(1.0 - number)
}

/// The inverse of the error function: an approximation by Winitzki, refined by Halley's method.
fn inverse_erf(number: f64) -> f64 {
    const A: f64 = 0.147;
    let abs = number.abs();
    if abs.is_nan() || abs > 1.0 {
        return f64::NAN;
    }
    if abs >= 1.0 {
        return f64::INFINITY.copysign(number);
    }
    if abs == 0.0 {
        return number;
    }
    let log = libm::log1p(-abs * abs);
    let half = 2.0 / (consts::PI * A) + log / 2.0;
    let mut root = ((half * half - log / A).sqrt() - half).sqrt();
    for _ in 0..4 {
        // The complement is exact where the function is close to 1.
        let error = if abs < 0.5 { libm::erf(root) - abs } else { (1.0 - abs) - libm::erfc(root) };
        let slope = consts::FRAC_2_SQRT_PI * libm::exp(-root * root);
        let step = error / slope;
        root -= step / (1.0 + root * step);
    }
    root.copysign(number)
}

/// A power of ten. It is 0 or infinity if it is out of the range of floats.
pub(crate) fn power_of_ten(exponent: i64) -> f64 {
    if exponent < -323 {
        return 0.0;
    }
    if exponent > 308 {
        return f64::INFINITY;
    }
    format!("1e{exponent}").parse().unwrap_or(f64::NAN)
}

/// Truncates a number. As in Go on amd64, a number out of range becomes the smallest integer.
pub(crate) fn to_integer(number: f64) -> i64 {
    truncate_to_i64(number).unwrap_or(i64::MIN)
}

/// The factorial modulo 2^64.
pub(crate) fn wrapping_factorial(number: u64) -> u64 {
    // 66! is a multiple of 2^64.
    (1..=number.min(66)).fold(1, u64::wrapping_mul)
}

/// Formats as Go's verb `g` with the shortest precision.
pub(crate) fn format_shortest(number: f64) -> String {
    if number.is_nan() {
        return "NaN".to_owned();
    }
    if number.is_infinite() {
        return if number > 0.0 { "+Inf" } else { "-Inf" }.to_owned();
    }
    let scientific = format!("{number:e}");
    let (digits, exponent) = scientific.split_once('e').unwrap_or((&scientific, "0"));
    let exponent: i32 = exponent.parse().unwrap_or_default();
    if (-4..6).contains(&exponent) {
        return number.to_string();
    }
    let sign = if exponent < 0 { '-' } else { '+' };
    format!("{digits}e{sign}{:02}", exponent.abs())
}
