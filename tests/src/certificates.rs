//! Certificates for servers, and who signs them.

use std::fs;
use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, KeyUsagePurpose};

use crate::postgres_programs::{scratch, write_private};

/// An authority of a test's own, whose certificate stands in a file until it is dropped.
#[derive(Debug)]
pub struct Authority {
    issuer: Issuer<'static, KeyPair>,
    directory: PathBuf,
}

/// A server's certificate and its key, as PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    certificate: String,
    key: String,
}

impl Authority {
    /// Makes one that nobody knows.
    #[must_use]
    pub fn create() -> Self {
        let mut params = CertificateParams::default();
        params.distinguished_name.push(DnType::CommonName, "authority of a test");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign];
        let key = KeyPair::generate().expect("there are random numbers");
        let certificate = params.self_signed(&key).expect("the key is its own");
        let directory = scratch("authority");
        fs::write(directory.join("ca.pem"), certificate.pem()).expect("the directory is writable");
        Self { issuer: Issuer::new(params, key), directory }
    }

    /// Where its certificate is.
    #[must_use]
    pub fn file(&self) -> PathBuf {
        self.directory.join("ca.pem")
    }

    /// Signs a certificate for a host.
    #[must_use]
    pub fn identity(&self, host: &str) -> Identity {
        self.sign(&params(host))
    }

    /// Signs a certificate for a host that was good until the year 2001.
    #[must_use]
    pub fn expired(&self, host: &str) -> Identity {
        let mut params = params(host);
        params.not_before = rcgen::date_time_ymd(2000, 1, 1);
        params.not_after = rcgen::date_time_ymd(2001, 1, 1);
        self.sign(&params)
    }

    /// Has an authority vouch for itself as a host, as `openssl req -x509` does.
    #[must_use]
    pub fn itself(host: &str) -> Identity {
        let mut params = params(host);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let key = KeyPair::generate().expect("there are random numbers");
        let certificate = params.self_signed(&key).expect("the key is its own");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }

    fn sign(&self, params: &CertificateParams) -> Identity {
        let key = KeyPair::generate().expect("there are random numbers");
        let certificate = params.signed_by(&key, &self.issuer).expect("an authority signs");
        Identity { certificate: certificate.pem(), key: key.serialize_pem() }
    }
}

fn params(host: &str) -> CertificateParams {
    CertificateParams::new([host.to_owned()]).expect("it is the name of a host")
}

impl Drop for Authority {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.directory);
    }
}

impl Identity {
    /// The certificate.
    #[must_use]
    pub fn certificate(&self) -> &str {
        &self.certificate
    }

    /// Puts both into a directory of a server's user, for whom alone the key is.
    pub(crate) fn write(&self, directory: &Path) {
        write_private(&directory.join("server.crt"), &self.certificate);
        write_private(&directory.join("server.key"), &self.key);
    }
}
