use hpa_calc::{api::ResourceName, quantity::parse_milli, readings::*, selector::Selector};
use jiff::{SignedDuration, Timestamp};
use serde_json::Value;
fn ts(v:&Value)->Timestamp{v.as_str().and_then(|s|s.parse().ok()).unwrap_or(Timestamp::constant(-62_135_596_800, 0))}
fn dur(v:&Value)->SignedDuration{v.as_str().map(|s|s.parse().unwrap()).unwrap_or_default()}
pub fn resource(items:&Value,r:&ResourceName,c:Option<&str>)->Result<Reading,ReadError>{
    let empty=vec![]; let items=items.as_array().unwrap_or(&empty);
    if items.is_empty(){return Err(ReadError::Empty(MetricsApi::Resource));}
    let mut out=PodSamples::default();
    for i in items { let cs=i["containers"].as_array().cloned().unwrap_or_default();
        let v: Option<i64> = match c { Some(c)=>cs.iter().find(|x|x["name"]==c).and_then(|x|x["usage"].get(r.as_str())).map(|q|parse_milli(q.as_str().unwrap()).unwrap()),
          None=> if cs.is_empty(){None}else{cs.iter().map(|x|x["usage"].get(r.as_str()).map(|q|parse_milli(q.as_str().unwrap()).unwrap())).sum()}};
        if let Some(value)=v { out.insert(i["metadata"]["name"].as_str().unwrap(), PodSample{value,timestamp:ts(&i["timestamp"]),window:dur(&i["window"])}); } }
    Ok(Reading::Pods(out)) }
pub fn pods(items:&Value)->Result<Reading,ReadError>{
    let empty=vec![]; let items=items.as_array().unwrap_or(&empty);
    if items.is_empty(){return Err(ReadError::Empty(MetricsApi::Custom));}
    let mut out=PodSamples::default();
    for i in items { out.insert(i["describedObject"]["name"].as_str().unwrap(), PodSample{value:parse_milli(i["value"].as_str().unwrap()).unwrap(),timestamp:ts(&i["timestamp"]),window:SignedDuration::from_secs(i["windowSeconds"].as_i64().unwrap_or(60))}); }
    Ok(Reading::Pods(out)) }
pub fn object(items:&Value)->Result<Reading,ReadError>{
    let empty=vec![]; let items=items.as_array().unwrap_or(&empty);
    if items.len()!=1 {return Err(ReadError::Fetch{api:MetricsApi::Custom,message:format!("the custom metrics API server returned {} results when we asked for exactly one",items.len())});}
    Ok(Reading::Object(parse_milli(items[0]["value"].as_str().unwrap()).unwrap())) }
pub fn external(items:&Value,s:&Selector)->Result<Reading,ReadError>{
    let empty=vec![]; let items=items.as_array().unwrap_or(&empty);
    let v:Vec<i64>=items.iter().filter(|i| s.is_nothing() || s.matches_by(|k| i["metricLabels"].get(k).and_then(|v|v.as_str()))).map(|i|parse_milli(i["value"].as_str().unwrap()).unwrap()).collect();
    if v.is_empty(){return Err(ReadError::Empty(MetricsApi::External));}
    Ok(Reading::External(v)) }
