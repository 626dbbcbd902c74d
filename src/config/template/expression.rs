//! Computes pipelines, commands and operands.

use super::ast::{Binding, Command, Name, Operand, Pipeline, Term};
use super::eval::Evaluator;
use super::functions::{Argument, Body, Call, Function};
use super::span::Span;
use super::value::Value;
use super::{Result, TemplateError};

impl<'t, 's> Evaluator<'t, 's> {
    /// The value of a pipeline, which its variables take too.
    pub(super) fn pipeline(&mut self, pipeline: &'t Pipeline<'s>, dot: &Value) -> Result<Value> {
        let mut passed: Option<Argument> = None;
        for command in &pipeline.commands {
            let value = self.command(command, passed.take(), dot)?;
            passed = Some(Argument { value, span: command.span });
        }
        let value = passed.map_or(Value::Nil, |argument| argument.value);
        for name in &pipeline.variables {
            match pipeline.binding {
                Binding::Declare => self.declare(name, value.clone()),
                Binding::Assign => self.assign(name, value.clone())?,
            }
        }
        Ok(value)
    }

    /// The value of a command; a value `passed` by the command before is its last argument.
    fn command(&mut self, command: &'t Command<'s>, passed: Option<Argument>, dot: &Value) -> Result<Value> {
        self.session.budget.spend(1, command.span)?;
        let head = &command.head;
        if let (Term::Function(function), []) = (&head.term, head.fields.as_slice()) {
            return self.function(function, &command.arguments, passed, command.span, dot);
        }
        if matches!(head.term, Term::Nil) {
            return Err(TemplateError::new(head.span, "nil is not a command"));
        }
        if let Some(extra) = command.arguments.first().map(|operand| operand.span).or(passed.map(|p| p.span))
        {
            let message = "cannot give an argument to what is not a function";
            return Err(TemplateError::new(head.span.to(extra), message));
        }
        self.operand(head, dot)
    }

    /// The value of an operand that stands alone or as an argument.
    fn operand(&mut self, operand: &'t Operand<'s>, dot: &Value) -> Result<Value> {
        self.session.budget.spend(1, operand.span)?;
        let mut value = match &operand.term {
            Term::Dot => dot.clone(),
            Term::Nil => Value::Nil,
            Term::Literal(value) => value.clone(),
            Term::Variable(name) => self.variable(name, operand.span)?,
            Term::Function(function) => self.function(function, &[], None, operand.span, dot)?,
            Term::Parenthesized(pipeline) => {
                self.session.depth.descend(operand.span)?;
                let value = self.pipeline(pipeline, dot)?;
                self.session.depth.ascend();
                value
            }
        };
        for name in &operand.fields {
            value = field(&value, name)?;
        }
        Ok(value)
    }

    fn function(
        &mut self,
        function: &'static Function,
        operands: &'t [Operand<'s>],
        passed: Option<Argument>,
        span: Span,
        dot: &Value,
    ) -> Result<Value> {
        check_count(function, operands.len() + usize::from(passed.is_some()), span)?;
        let run = match function.body {
            Body::Strict(run) => run,
            Body::ShortCircuit(stop_at) => return self.short_circuit(stop_at, operands, passed, dot),
        };
        let mut arguments = Vec::with_capacity(operands.len() + 1);
        for operand in operands {
            arguments.push(Argument { value: self.operand(operand, dot)?, span: operand.span });
        }
        arguments.extend(passed);
        run(&mut Call { name: function.name, arguments: &arguments, span, session: &mut self.session })
    }

    /// The first argument that is as true as `stop_at`, else the last one; those after it are not computed.
    fn short_circuit(
        &mut self,
        stop_at: bool,
        operands: &'t [Operand<'s>],
        passed: Option<Argument>,
        dot: &Value,
    ) -> Result<Value> {
        let mut value = Value::Nil;
        for operand in operands {
            value = self.operand(operand, dot)?;
            if value.is_true() == stop_at {
                return Ok(value);
            }
        }
        Ok(passed.map_or(value, |argument| argument.value))
    }
}

/// The value of a field. A variable that is not set is empty; a field of nil is nil.
fn field(value: &Value, name: &Name<'_>) -> Result<Value> {
    if let Value::Environment(map) = value {
        return Ok(Value::Text(map.get(name.text).cloned().unwrap_or_default()));
    } else if matches!(value, Value::Nil) {
        return Ok(Value::Nil);
    }
    let message = format!("cannot evaluate field {} of {}", name.text, value.described());
    Err(TemplateError::new(name.span, message))
}

fn check_count(function: &Function, found: usize, span: Span) -> Result<()> {
    let Function { name, fewest, most, .. } = function;
    let expected = match most {
        Some(most) if most == fewest && found != *most => plural(*most),
        Some(most) if found < *fewest || found > *most => format!("{fewest} to {}", plural(*most)),
        None if found < *fewest => format!("at least {}", plural(*fewest)),
        Some(_) | None => return Ok(()),
    };
    Err(TemplateError::new(span, format!("{name}: expected {expected}, found {found}")))
}

fn plural(count: usize) -> String {
    if count == 1 { "1 argument".to_owned() } else { format!("{count} arguments") }
}
