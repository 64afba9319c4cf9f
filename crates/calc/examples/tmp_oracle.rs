#![allow(warnings)]
use hpa_calc::{api::*, defaults::*, validation::*};
use serde_json::Value;
fn strip(v: &mut Value) { match v { Value::Object(m) => { m.values_mut().for_each(strip); m.retain(|_, v| !(v.is_null() || *v == "" || v.as_array().is_some_and(|a| a.is_empty()))); } Value::Array(a) => a.iter_mut().for_each(strip), _ => {} } }
fn main() {
    let (mut ok, mut bad) = (0, 0);
    for l in std::fs::read_to_string("/tmp/oracle/out.jsonl").unwrap().lines() {
        let l: Value = serde_json::from_str(l).unwrap();
        let read = |k: &str| -> HorizontalPodAutoscalerSpec { let mut s = serde_json::from_value(l[k].clone()).unwrap(); apply_defaults(&mut s); s };
        let spec = read("input");
        let old = l.get("old").map(|_| read("old"));
        let causes = validate(&spec, &ValidationOptions { scale_to_zero: l["gate"].as_bool().unwrap(), old: old.as_ref() });
        let mut got: Vec<String> = causes.iter().map(|c| format!("{} {} {}", c.reason, c.field, c.message)).collect();
        let mut want: Vec<String> = l["causes"].as_array().map(|a| a.iter().map(|c| format!("{} {} {}", c["reason"].as_str().unwrap(), c["field"].as_str().unwrap(), c["message"].as_str().unwrap())).collect()).unwrap_or_default();
        let random = want.iter().filter(|c| c.contains("source only")).count() > 1;
        if random { got.sort(); want.sort(); }
        let mut same = got == want;
        if same && !random && !causes.is_empty() { same = l["message"] == invalid_message("HorizontalPodAutoscaler.autoscaling", "web", &causes); }
        let (mut a, mut b) = (serde_json::to_value(&spec).unwrap(), l["spec"].clone());
        strip(&mut a); strip(&mut b);
        if l["status"] == 201 && a != b { same = false; if bad < 5 { println!("SPEC\n{a}\n{b}"); } }
        if same { ok += 1 } else { bad += 1; if bad < 6 {
            println!("{}\n", l["input"]);
            for g in &got { if !want.contains(g) { println!("  extra {g}"); } }
            for g in &want { if !got.contains(g) { println!("  missing {g}"); } } } }
    }
    println!("{ok} ok {bad} bad");
}
