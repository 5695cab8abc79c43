//! The little of SPDX licence expressions that a list of allowed licences needs: identifiers, `OR`,
//! `AND`, `WITH`, parentheses, and the slash that older packages write for `OR`.

/// Whether the expression can be met with allowed licences alone. An exception (`WITH`) only adds
/// rights, so the licence before it decides.
pub(crate) fn allows(expression: &str, allowed: &[&str]) -> Result<bool, String> {
    let spaced = expression.replace('(', " ( ").replace(')', " ) ").replace('/', " OR ");
    let words: Vec<&str> = spaced.split_whitespace().collect();
    let mut parser = Parser { words: &words, at: 0, allowed };
    let met = parser.any()?;
    match parser.peek() {
        None => Ok(met),
        Some(word) => Err(format!("`{word}` was not expected in `{expression}`")),
    }
}

struct Parser<'a> {
    words: &'a [&'a str],
    at: usize,
    allowed: &'a [&'a str],
}

impl<'a> Parser<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn eat(&mut self, word: &str) -> bool {
        let found = self.peek() == Some(word);
        self.at += usize::from(found);
        found
    }

    fn any(&mut self) -> Result<bool, String> {
        let mut met = self.all()?;
        while self.eat("OR") {
            met |= self.all()?;
        }
        Ok(met)
    }

    fn all(&mut self) -> Result<bool, String> {
        let mut met = self.one()?;
        while self.eat("AND") {
            met &= self.one()?;
        }
        Ok(met)
    }

    fn one(&mut self) -> Result<bool, String> {
        if self.eat("(") {
            let met = self.any()?;
            return self.eat(")").then_some(met).ok_or("a parenthesis is not closed".to_owned());
        }
        let id = self.peek().filter(|w| !matches!(*w, "OR" | "AND" | "WITH" | ")"));
        let id = id.ok_or("a licence was expected")?;
        self.at += 1;
        if self.eat("WITH") {
            self.peek().ok_or("an exception was expected after WITH")?;
            self.at += 1;
        }
        Ok(self.allowed.contains(&id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_weighed() {
        let allowed = ["MIT", "Apache-2.0", "Unicode-3.0"];
        for (expression, met) in [
            ("MIT", true),
            ("GPL-3.0-only", false),
            ("MIT OR GPL-3.0-only", true),
            ("MIT AND GPL-3.0-only", false),
            ("(MIT OR GPL-2.0-only) AND Unicode-3.0", true),
            ("(GPL-2.0-only OR Zlib) AND Unicode-3.0", false),
            ("MIT AND GPL-2.0-only OR Apache-2.0", true),
            ("Apache-2.0 WITH LLVM-exception OR GPL-2.0-only", true),
            ("MIT/Apache-2.0", true),
            ("mit", false),
        ] {
            assert_eq!(allows(expression, &allowed), Ok(met), "{expression}");
        }
        for broken in ["", "MIT OR", "(MIT", "MIT Apache-2.0", "MIT)", "AND MIT", "MIT WITH", "OR"]
        {
            assert!(allows(broken, &allowed).is_err(), "{broken}");
        }
    }
}
