//! JSON documents and their schemas, for the tests of every room that writes such documents.

use serde_json::Value;

/// A minimal validator, for the features that our schemas use. Every key is there, of its type, and
/// nothing else.
pub(crate) fn check(schema: &Value, root: &Value, value: &Value, at: &str) {
    if let Some(name) = schema.get("$ref") {
        let path = name.as_str().unwrap().trim_start_matches('#');
        return check(root.pointer(path).unwrap(), root, value, at);
    }
    if let Some(constant) = schema.get("const") {
        return assert_eq!(constant, value, "{at}");
    }
    if let Some(any) = schema.get("oneOf").and_then(Value::as_array) {
        let of = |v: &Value| if v.is_null() { "null" } else { "object" };
        let fits =
            |s: &&Value| s.get("type").and_then(Value::as_str).unwrap_or("object") == of(value);
        return check(any.iter().find(fits).unwrap(), root, value, at);
    }
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().map(|k| k.as_str().unwrap()).collect(),
        other => panic!("{at}: {other}"),
    };
    let is = |kind: &&str| match *kind {
        "null" => value.is_null(),
        "string" => value.is_string(),
        "boolean" => value.is_boolean(),
        "integer" => value.is_u64(),
        "number" => value.is_number(),
        "array" => value.is_array(),
        "object" => value.is_object(),
        other => panic!("{at}: {other}"),
    };
    assert!(kinds.iter().any(is), "{at}: {value} is not {kinds:?}");
    for item in value.as_array().into_iter().flatten() {
        check(&schema["items"], root, item, &format!("{at}[]"));
    }
    if let Some(fields) = value.as_object() {
        let known = schema["properties"].as_object().unwrap();
        let required = schema["required"].as_array().unwrap();
        assert_eq!(schema["additionalProperties"], false, "{at}");
        assert_eq!(required.len(), known.len(), "{at}");
        for name in fields.keys() {
            assert!(known.contains_key(name), "{at}.{name}: not in the schema");
        }
        for (name, schema) in known {
            assert!(required.iter().any(|r| r == name), "{at}.{name}: not required");
            assert!(
                schema.get("description").is_some()
                    || schema.get("$ref").is_some()
                    || schema.get("const").is_some()
                    || schema.get("oneOf").is_some(),
                "{at}.{name}"
            );
            check(schema, root, &fields[name], &format!("{at}.{name}"));
        }
    }
}
