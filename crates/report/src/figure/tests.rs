//! Figures as a reader's browser would parse them.
