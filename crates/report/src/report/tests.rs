//! Reports as a browser would parse them.
