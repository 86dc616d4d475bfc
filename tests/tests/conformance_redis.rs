//! The conformance suites on one Redis server, a fresh one for each case.

use lockrt_tests::RedisServer;

lockrt::conformance_tests!(RedisServer::start());
lockrt::lock_conformance_tests!(RedisServer::start());
