//! The engine with real binaries. Modules leave a line in a file whenever something is made or destroyed, so that tests can count.

mod backends;
mod bad;
mod full;
mod kept;
mod killed;
mod lab;
mod last;
mod life;
mod many;
mod mirror;
mod seam;
mod secret;
mod served;
mod stopped;
mod taken;
