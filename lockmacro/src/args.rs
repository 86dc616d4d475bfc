//! The arguments as written. Rules that need only one argument stand here.

use proc_macro2::{Ident, Span, TokenStream};
use quote::{ToTokens as _, quote_spanned};
use syn::{Error, Expr, Path, Result};

use crate::diag::Mistakes;
use crate::key::KeyTemplate;
use crate::policy::{
    Answer, Contention, Millis, Policy, Switch, contention, on_error, positive, renewal, switch,
};
use crate::text::Text;
use crate::written::{self, Written};

/// The arguments of one attribute. `None` also stands for "written, but wrong": then a mistake is on record.
pub(crate) struct Args {
    pub(crate) key: Option<KeyTemplate>,
    pub(crate) ttl: Option<Millis>,
    pub(crate) policy: Policy,
    pub(crate) on_error: Option<Answer>,
    pub(crate) lease: Option<Ident>,
    pub(crate) manager: Option<Expr>,
    pub(crate) name: Option<Text>,
    pub(crate) runtime: TokenStream,
}

impl Args {
    /// Reads everything that can be read; what cannot becomes a mistake.
    pub(crate) fn read(tokens: TokenStream, mistakes: &mut Mistakes) -> Self {
        let mut args = Self {
            key: None,
            ttl: None,
            policy: Policy {
                contention: Contention::Fail,
                renew: None,
                min_hold: None,
                switches: Vec::new(),
            },
            on_error: None,
            lease: None,
            manager: None,
            name: None,
            runtime: quote_spanned!(Span::mixed_site()=> ::lockrt),
        };
        written::read(tokens, mistakes, |argument, mistakes| args.set(argument, mistakes));
        args
    }

    fn set(&mut self, argument: Written, mistakes: &mut Mistakes) -> Result<()> {
        let Written { word, usage, value } = argument;
        match word {
            "key" => self.key = KeyTemplate::read(&Text::read(&value, "key")?, mistakes),
            "ttl_ms" => {
                let because = "a lease of 0 ms ends before it begins";
                self.ttl = Some(positive("ttl_ms", "10_000", &value, because)?);
            }
            "min_hold_ms" => {
                let because = "leave it out to release the key at once";
                self.policy.min_hold = Some(positive("min_hold_ms", "1_000", &value, because)?);
            }
            "on_contention" => self.policy.contention = contention(&value)?,
            "on_error" => self.on_error = Some(on_error(&value)?),
            "renew" => self.policy.renew = renewal(&value)?,
            "lease" => self.lease = Some(identifier(&value)?),
            "manager" => self.manager = Some(value),
            "name" => self.name = Some(label(&value)?),
            "crate" => self.runtime = runtime_path(&value)?.into_token_stream(),
            _ => self.set_switch(word, &value, usage)?,
        }
        Ok(())
    }

    fn set_switch(&mut self, word: &str, value: &Expr, usage: &str) -> Result<()> {
        let (usual, other, meaning) = match word {
            "on_lost" => ("cancel", "report", Switch::ReportLoss),
            "on_cancel" => ("release", "hold", Switch::HoldOnCancel),
            "release" => ("awaited", "started", Switch::StartRelease),
            // Not to require it is not to write it.
            _ => ("", "required", Switch::RequireFencing),
        };
        if switch(value, word, usual, other, usage)? {
            self.policy.switches.push(meaning);
        }
        Ok(())
    }
}

fn identifier(value: &Expr) -> Result<Ident> {
    let sentence =
        "`lease` is the name by which the body calls its lease: write `lease = held`, without quotes";
    match value {
        Expr::Path(path) if path.qself.is_none() => match path.path.get_ident() {
            Some(ident) if ident != "self" && ident != "Self" && ident != "crate" && ident != "super" => {
                Ok(ident.clone())
            }
            _ => Err(Error::new_spanned(value, sentence)),
        },
        _ => Err(Error::new_spanned(value, sentence)),
    }
}

fn label(value: &Expr) -> Result<Text> {
    let text = Text::read(value, "name")?;
    if text.value.trim().is_empty() {
        return Err(Error::new(
            text.span,
            "`name` is empty: leave it out, then the lock is called after the function",
        ));
    }
    Ok(text)
}

fn runtime_path(value: &Expr) -> Result<Path> {
    match value {
        Expr::Path(path) if path.qself.is_none() => Ok(path.path.clone()),
        _ => Err(Error::new_spanned(
            value,
            "`crate` is the path of the runtime crate: write `crate = ::lockrt`, without quotes",
        )),
    }
}
