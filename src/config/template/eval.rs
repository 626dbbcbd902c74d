//! Walks the tree of a template and writes its output, noting where each part came from. Pipelines are computed in
//! `expression`.

use std::rc::Rc;

use super::ast::{Binding, Conditional, Loop, Name, Node, Pipeline, Templates};
use super::budget::{Draft, MAX_CALLS, MAX_TEXT, too_long};
use super::format::write_plain;
use super::functions::Session;
use super::source_map::SourceMap;
use super::span::Span;
use super::value::{Environment, Value};
use super::{Rendered, Result, TemplateError};

/// One rendering.
pub(super) struct Evaluator<'t, 's> {
    templates: &'t Templates<'s>,
    pub(super) session: Session,
    /// The variables of the template that is running, innermost last. Looked up by name, as in Go.
    variables: Vec<(&'s str, Value)>,
    text: String,
    map: SourceMap,
    calls: usize,
}

/// How a list of nodes was left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
    Finished,
    Broken,
    Continued,
}

impl<'t, 's> Evaluator<'t, 's> {
    pub(super) fn new(templates: &'t Templates<'s>, environment: Rc<Environment>) -> Evaluator<'t, 's> {
        let session = Session::new(environment);
        let map = SourceMap::default();
        Evaluator { templates, session, variables: Vec::new(), text: String::new(), map, calls: 0 }
    }

    /// Renders the source itself over the data.
    pub(super) fn render(mut self, data: &Rc<Environment>) -> Result<Rendered> {
        let dot = Value::Environment(Rc::clone(data));
        self.variables.push(("$", dot.clone()));
        if let Some(nodes) = self.templates.get("") {
            self.nodes(nodes, &dot)?;
        }
        Ok(Rendered { text: self.text, map: self.map })
    }

    fn nodes(&mut self, nodes: &'t [Node<'s>], dot: &Value) -> Result<Flow> {
        for node in nodes {
            let flow = self.node(node, dot)?;
            if flow != Flow::Finished {
                return Ok(flow);
            }
        }
        Ok(Flow::Finished)
    }

    fn node(&mut self, node: &'t Node<'s>, dot: &Value) -> Result<Flow> {
        match node {
            Node::Text { text, start } => self.literal(text, *start)?,
            Node::Action { pipeline, span } => self.action(pipeline, *span, dot)?,
            Node::Conditional(conditional) => return self.conditional(conditional, dot),
            Node::Loop(range) => return self.range(range, dot),
            Node::Template { name, argument, span } => self.call(name, argument.as_ref(), *span, dot)?,
            Node::Break => return Ok(Flow::Broken),
            Node::Continue => return Ok(Flow::Continued),
        }
        Ok(Flow::Finished)
    }

    fn literal(&mut self, text: &str, start: usize) -> Result<()> {
        let span = Span { start, end: start + text.len() };
        self.session.budget.spend(1, span)?;
        self.write(text, span)?;
        self.map.add_literal(start, text.len());
        Ok(())
    }

    /// Prints the value of a pipeline, unless it goes into variables.
    fn action(&mut self, pipeline: &'t Pipeline<'s>, span: Span, dot: &Value) -> Result<()> {
        let value = self.pipeline(pipeline, dot)?;
        if !pipeline.variables.is_empty() {
            return Ok(());
        }
        let text = if let Value::Text(text) = value {
            text
        } else if matches!(value, Value::Nil) {
            Rc::from("<no value>")
        } else {
            let mut draft = Draft::default();
            write_plain(&mut draft, &value);
            draft.finish(&mut self.session.budget, span)?
        };
        self.write(&text, span)?;
        if text.is_empty() {
            self.map.add_nothing(span, unset_variable(pipeline, &self.session.environment));
        }
        self.map.add_action(span, text.len());
        Ok(())
    }

    fn write(&mut self, text: &str, at: Span) -> Result<()> {
        if text.len() > MAX_TEXT - self.text.len() {
            return Err(too_long(at));
        }
        self.text.push_str(text);
        Ok(())
    }

    fn conditional(&mut self, node: &'t Conditional<'s>, dot: &Value) -> Result<Flow> {
        self.session.depth.descend(node.span)?;
        let known = self.variables.len();
        let mut taken = None;
        for arm in &node.arms {
            let value = self.pipeline(&arm.condition, dot)?;
            if value.is_true() {
                taken = Some((arm, value));
                break;
            }
        }
        let flow = match taken {
            Some((arm, value)) if node.binds_dot => self.nodes(&arm.body, &value)?,
            Some((arm, _)) => self.nodes(&arm.body, dot)?,
            None => self.nodes(&node.otherwise, dot)?,
        };
        self.variables.truncate(known);
        self.session.depth.ascend();
        Ok(flow)
    }

    fn range(&mut self, node: &'t Loop<'s>, dot: &Value) -> Result<Flow> {
        self.session.depth.descend(node.span)?;
        let known = self.variables.len();
        let value = self.pipeline(&node.over, dot)?;
        let Some(mut entries) = value.entries().map(Iterator::peekable) else {
            let message = format!("cannot range over {}", value.described());
            return Err(TemplateError::new(node.over.span, message));
        };
        let mut flow = Flow::Finished;
        if entries.peek().is_none() {
            // It may end an outer loop.
            flow = self.nodes(&node.otherwise, dot)?;
        }
        let bound = self.variables.len();
        for (index, element) in entries {
            self.session.budget.spend(1, node.span)?;
            self.bind_entry(&node.over, index, &element)?;
            let left = self.nodes(&node.body, &element)?;
            self.variables.truncate(bound);
            if left == Flow::Broken {
                break;
            }
        }
        self.variables.truncate(known);
        self.session.depth.ascend();
        Ok(flow)
    }

    /// Sets the variables of a range: one takes the element, two take index and element.
    fn bind_entry(&mut self, pipeline: &Pipeline<'s>, index: Value, element: &Value) -> Result<()> {
        let names = pipeline.variables.iter().rev();
        for (distance, (name, value)) in names.zip([element.clone(), index]).enumerate() {
            match pipeline.binding {
                Binding::Assign => self.assign(name, value)?,
                Binding::Declare => {
                    // The pipeline has just declared them, on top of all others.
                    if let Some((_, variable)) = self.variables.iter_mut().rev().nth(distance) {
                        *variable = value;
                    }
                }
            }
        }
        Ok(())
    }

    /// Runs another template. It sees none of our variables.
    fn call(
        &mut self,
        name: &str,
        argument: Option<&'t Pipeline<'s>>,
        span: Span,
        dot: &Value,
    ) -> Result<()> {
        let Some(nodes) = self.templates.get(name) else {
            return Err(TemplateError::new(span, format!("template {name:?} is not defined")));
        };
        let data = match argument {
            Some(pipeline) => self.pipeline(pipeline, dot)?,
            None => Value::Nil,
        };
        if self.calls >= MAX_CALLS {
            let message =
                format!("template {name:?} is called too deep: expected at most {MAX_CALLS} levels");
            return Err(TemplateError::new(span, message));
        }
        self.session.budget.spend(1, span)?;
        self.session.depth.descend(span)?;
        self.calls += 1;
        let ours = std::mem::replace(&mut self.variables, vec![("$", data.clone())]);
        self.nodes(nodes, &data)?;
        self.variables = ours;
        self.calls -= 1;
        self.session.depth.ascend();
        Ok(())
    }

    pub(super) fn declare(&mut self, name: &Name<'s>, value: Value) {
        self.variables.push((name.text, value));
    }

    pub(super) fn assign(&mut self, name: &Name<'_>, value: Value) -> Result<()> {
        let at = self.find(name.text, name.span)?;
        if let Some((_, variable)) = self.variables.get_mut(at) {
            *variable = value;
        }
        Ok(())
    }

    pub(super) fn variable(&mut self, name: &str, span: Span) -> Result<Value> {
        let at = self.find(name, span)?;
        Ok(self.variables.get(at).map_or(Value::Nil, |(_, value)| value.clone()))
    }

    /// The innermost variable of this name. The parser knows the name, but its declaration may not have been run.
    fn find(&mut self, name: &str, span: Span) -> Result<usize> {
        let found = self.variables.iter().rposition(|(known, _)| *known == name);
        let looked_at = self.variables.len() - found.unwrap_or_default();
        self.session.budget.spend(looked_at as u64 / 4, span)?;
        found.ok_or_else(|| TemplateError::new(span, format!("variable {name} has no value yet")))
    }
}

/// The name in `.NAME` or `$.NAME` that the environment does not have. No other value has fields that are empty.
fn unset_variable<'s>(pipeline: &Pipeline<'s>, environment: &Environment) -> Option<&'s str> {
    let [command] = pipeline.commands.as_slice() else { return None };
    let [name] = command.head.fields.as_slice() else { return None };
    (!environment.contains_key(name.text)).then_some(name.text)
}
