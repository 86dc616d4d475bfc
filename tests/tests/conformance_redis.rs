//! The conformance suite on one Redis server, a fresh one for each case.

lockrt::conformance_tests!(lockrt_tests::RedisServer::start());
