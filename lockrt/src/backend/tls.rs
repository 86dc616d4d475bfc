//! Verified TLS: whom a client trusts, and what is wrong with a server that it does not.

use std::path::Path;
use std::sync::Arc;

use once_cell::sync::OnceCell;
use rustls::crypto::ring;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject;
use rustls::{CertificateError, ClientConfig, Error, RootCertStore};

/// Authorities whose word is taken for who a server is.
#[derive(Clone)]
pub(crate) struct Authorities(Arc<RootCertStore>);

impl Authorities {
    /// Those in a file, or without one those of the system.
    ///
    /// # Errors
    ///
    /// A sentence that says what is wrong with the file, or with the system's store.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, String> {
        file.map_or_else(of_system, of_file).map(Self)
    }

    /// For connections in clear text, whose driver asks for some all the same.
    #[cfg(feature = "postgres-tls")]
    pub(crate) fn none() -> Self {
        Self(Arc::new(RootCertStore::empty()))
    }
}

/// A client that believes no server but one whose certificate is good for its host, by the word of these. Nothing
/// turns that off.
///
/// # Errors
///
/// A sentence, if the library is built without what it needs.
pub(crate) fn client(authorities: Authorities) -> Result<ClientConfig, String> {
    // Whatever other cryptography the program has installed.
    ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .map(|builder| builder.with_root_certificates(authorities.0).with_no_client_auth())
        .map_err(|error| format!("TLS cannot be set up: {error}"))
}

/// Read once for a process; an empty store is looked at again.
fn of_system() -> Result<Arc<RootCertStore>, String> {
    static SYSTEM: OnceCell<Arc<RootCertStore>> = OnceCell::new();
    let read = || {
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(rustls_native_certs::load_native_certs().certs);
        if roots.is_empty() {
            return Err(
                "the system has no trusted certificates to verify the server's by; install them (on Debian \
                        the package `ca-certificates`), see whether `SSL_CERT_FILE` and `SSL_CERT_DIR` name others, or \
                        name a file of them by `sslrootcert=<path>`",
            );
        }
        Ok(Arc::new(roots))
    };
    SYSTEM.get_or_try_init(read).cloned().map_err(str::to_owned)
}

fn of_file(path: &Path) -> Result<Arc<RootCertStore>, String> {
    let useless = |what: &str| {
        format!(
            "the file of `sslrootcert`, `{}`, {what}; it must hold the certificates of trusted authorities, as PEM",
            path.display()
        )
    };
    let text = std::fs::read(path).map_err(|error| useless(&format!("cannot be read: {error}")))?;
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_slice_iter(&text) {
        let certificate = certificate.map_err(|error| useless(&format!("is no PEM: {error}")))?;
        roots
            .add(certificate)
            .map_err(|error| useless(&format!("has a certificate in it that is none: {error}")))?;
    }
    if roots.is_empty() { Err(useless("has no certificate in it")) } else { Ok(Arc::new(roots)) }
}

/// What is wrong with the server, in words; none where the connection alone is to blame.
pub(crate) fn wrong_with_server(error: &(dyn std::error::Error + 'static)) -> Option<String> {
    let io = error.downcast_ref::<std::io::Error>();
    let error = match io.and_then(std::io::Error::get_ref) {
        Some(inner) => inner.downcast_ref::<Error>()?,
        None => error.downcast_ref::<Error>()?,
    };
    let wrong = match error {
        Error::InvalidCertificate(wrong) => match wrong {
            // The second: by another one of that name.
            CertificateError::UnknownIssuer | CertificateError::BadSignature => {
                "no authority that is trusted here has signed its certificate; name the file of its authority by \
                 `sslrootcert=<path>`, or have the system trust it"
            }
            CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. } => {
                "its certificate is for another host; write a host that stands in the certificate"
            }
            CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
                "its certificate has expired; renew it, or set the clock of this machine"
            }
            CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
                "its certificate is not valid yet; set the clocks of both machines"
            }
            // The library has no kind for it.
            CertificateError::Other(other) if other.to_string() == "CaUsedAsEndEntity" => {
                "its certificate is that of an authority, as a self-signed one mostly is; sign one for the server \
                 with it"
            }
            CertificateError::Other(other) if other.to_string() == "UnsupportedCertVersion" => {
                "its certificate is of version 1, without a subject alternative name; sign it with an extension file"
            }
            other => {
                return Some(format!("its certificate cannot be accepted ({other}); give it a better one"));
            }
        },
        Error::PeerIncompatible(_) => {
            return Some(format!(
                "it is too old or too strict for this client ({error}); let it speak TLS 1.2 or 1.3"
            ));
        }
        _ => return None,
    };
    Some(wrong.to_owned())
}

#[cfg(test)]
mod tests {
    use rustls::client::WebPkiServerVerifier;
    use rustls::client::danger::ServerCertVerifier as _;
    use rustls::pki_types::{ServerName, UnixTime};

    use super::*;

    /// As `openssl x509 -req` signs one that is given no extensions.
    const VERSION_1: &str = "-----BEGIN CERTIFICATE-----
MIIBHTCBxAIUSrG9iLL6lEQMpwbfiSLoOvpqqTUwCgYIKoZIzj0EAwIwDTELMAkG
A1UEAwwCY2EwIBcNMjYxMTMwMjMzNTU3WhgPMjEyNjExMDYyMzM1NTdaMBQxEjAQ
BgNVBAMMCWxvY2FsaG9zdDBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABIHZZRsw
9tu7sAWhvyLcJl/q4j+85VWmb8LEjQ8jbLy969pYXCBI4yY4C6m4kPwoFFFVrd+h
jIOnoiy10r9xJCowCgYIKoZIzj0EAwIDSAAwRQIhAIOyLdSGC6Ev7gK5FrT8NpEj
bby/QIwhpa51TrJeqNHhAiBOsGR+f2rF9GOPcDLe08Idzms3B/bzTaQXISr0jGxY
CA==
-----END CERTIFICATE-----";

    #[test]
    fn a_certificate_of_version_1_is_named_as_such() {
        let certificate = CertificateDer::from_pem_slice(VERSION_1.as_bytes()).unwrap();
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let provider = Arc::new(ring::default_provider());
        let verifier =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), provider).build().unwrap();
        let host = ServerName::try_from("localhost").unwrap();
        let error = verifier.verify_server_cert(&certificate, &[], &host, &[], UnixTime::now()).unwrap_err();
        let said = wrong_with_server(&error).unwrap();
        assert!(said.contains("version 1") && said.contains("extension file"), "{said}");
    }
}
