//! What Go's own implementation answered for a list of templates.

use std::collections::BTreeMap;
use std::rc::Rc;

use serde::Deserialize;

use crate::config::template::eval::Evaluator;
use crate::config::template::parser::parse;
use crate::config::template::value::environment;

const GO_CASES: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/tests/testdata/go-template.json"));

#[derive(Deserialize)]
struct GoCases {
    env: BTreeMap<String, String>,
    cases: Vec<GoCase>,
}

#[derive(Deserialize)]
struct GoCase {
    template: String,
    output: Option<String>,
    error: Option<String>,
}

#[test]
fn every_template_renders_as_go_renders_it() {
    let go: GoCases = serde_json::from_str(GO_CASES).unwrap();
    let data = environment(&go.env);
    let mut process = go.env.clone();
    process.insert("NAME_1".to_owned(), "Template".to_owned());
    let process = environment(&process);
    assert!(go.cases.len() > 50);
    for case in go.cases {
        let rendered = parse(&case.template)
            .and_then(|templates| Evaluator::new(&templates, Rc::clone(&process)).render(&data));
        match (case.output, case.error) {
            (Some(expected), None) => match rendered {
                Ok(rendered) => assert_eq!(rendered.text, expected, "{}", case.template),
                Err(error) => panic!("{}: {error}", case.template),
            },
            (None, Some(_)) => assert!(rendered.is_err(), "{}", case.template),
            (Some(_), Some(_)) | (None, None) => panic!("{}: neither output nor error", case.template),
        }
    }
}
