//! Stub.
use std::collections::BTreeMap;
use std::ops::Range;
/// Map.
#[derive(Debug, Clone)]
pub struct SourceMap;
/// Origin.
pub struct Origin {
    /// Span.
    pub span: Range<usize>,
    /// Verbatim.
    pub verbatim: bool,
}
impl SourceMap {
    /// Locate.
    pub fn locate(&self, range: Range<usize>) -> Origin {
        Origin { span: range, verbatim: true }
    }
}
/// Rendered.
pub struct Rendered {
    /// Text.
    pub text: String,
    /// Map.
    pub map: SourceMap,
}
/// Error.
#[derive(Debug)]
pub struct TemplateError {
    /// Span.
    pub span: Range<usize>,
    /// Message.
    pub message: String,
}
/// Render.
pub fn render(text: &str, _env: &BTreeMap<String, String>) -> Result<Rendered, TemplateError> {
    Ok(Rendered { text: text.to_owned(), map: SourceMap })
}
