//! The filter in Envoy: Proxy-Wasm's callbacks, handed on.
//!
//! A stream never dispatches: a call-out's answer goes to the context whose callback dispatched
//! it, and is dropped if that context is gone, as a stream's is when its client hangs up.

mod host;

use std::rc::Rc;

use proxy_wasm::traits::{Context, HttpContext, RootContext};
use proxy_wasm::types::{Action, ContextType};

use crate::filter::host::Turn;
use crate::filter::{Root, Stream};
use host::Envoy;

struct RootShell(Root);

struct StreamShell(Stream);

impl Context for RootShell {
    fn on_http_call_response(&mut self, token: u32, headers: usize, body_size: usize, _: usize) {
        self.0.call_ended(token, headers, body_size);
    }

    fn on_done(&mut self) -> bool {
        self.0.over()
    }
}

impl RootContext for RootShell {
    fn on_configure(&mut self, _: usize) -> bool {
        self.0.configure()
    }

    fn on_queue_ready(&mut self, queue: u32) {
        self.0.woken(queue);
    }

    fn on_tick(&mut self) {
        self.0.tick();
    }

    fn create_http_context(&self, id: u32) -> Option<Box<dyn HttpContext>> {
        Some(Box::new(StreamShell(self.0.stream(id))))
    }

    fn get_type(&self) -> Option<ContextType> {
        Some(ContextType::HttpContext)
    }
}

impl Context for StreamShell {}

impl HttpContext for StreamShell {
    fn on_http_request_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        action(self.0.request_headers(end_of_stream))
    }

    fn on_http_request_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        action(self.0.request_body(size, end_of_stream))
    }

    fn on_http_request_trailers(&mut self, _: usize) -> Action {
        action(self.0.request_trailers())
    }

    fn on_http_response_headers(&mut self, _: usize, end_of_stream: bool) -> Action {
        action(self.0.response_headers(end_of_stream))
    }

    fn on_http_response_body(&mut self, size: usize, end_of_stream: bool) -> Action {
        action(self.0.response_body(size, end_of_stream))
    }

    fn on_http_response_trailers(&mut self, _: usize) -> Action {
        action(self.0.response_trailers())
    }

    fn on_log(&mut self) {
        self.0.over();
    }
}

fn action(turn: Turn) -> Action {
    match turn {
        Turn::Continue => Action::Continue,
        Turn::Pause => Action::Pause,
    }
}

proxy_wasm::main! {{
    proxy_wasm::set_root_context(|id| -> Box<dyn RootContext> {
        Box::new(RootShell(Root::new(id, Rc::new(Envoy::new()))))
    });
}}
