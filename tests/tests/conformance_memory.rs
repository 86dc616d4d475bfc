//! The conformance suite on the memory backend.

lockrt::conformance_tests!(lockrt::Memory::new(), power = none);
