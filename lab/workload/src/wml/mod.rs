//! Filebench's language, as far as its shipped personalities use it, parsed as a [`Personality`].
//! Other parts of the language are refused with line and column.

mod flowop;
mod lexer;
mod parser;
