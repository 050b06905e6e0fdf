package org.ep4j.wire.tcp.pipe;

import java.security.KeyPair;
import java.security.KeyPairGenerator;
import java.security.KeyStore;
import java.security.cert.Certificate;
import java.security.cert.X509Certificate;
import java.security.spec.ECGenParameterSpec;
import javax.net.ssl.KeyManager;
import javax.net.ssl.KeyManagerFactory;
import javax.net.ssl.SSLContext;
import javax.net.ssl.TrustManager;
import javax.net.ssl.TrustManagerFactory;
import javax.net.ssl.X509TrustManager;

/** A key with a certificate, from which tests make the contexts of callers. */
public record Certified(KeyPair keys, X509Certificate certificate) {
  public static Certified create() throws Exception {
    KeyPairGenerator generator = KeyPairGenerator.getInstance("EC");
    generator.initialize(new ECGenParameterSpec("secp256r1"));
    KeyPair keys = generator.generateKeyPair();
    return new Certified(keys, SelfSigned.of(keys));
  }

  public SSLContext trustingAll() throws Exception {
    return trusting(() -> {});
  }

  /** A context that asks {@code check} whether it trusts a certificate, which throws if not. */
  public SSLContext trusting(Runnable check) throws Exception {
    X509TrustManager trust =
        new X509TrustManager() {
          @Override
          public void checkClientTrusted(X509Certificate[] chain, String type) {
            check.run();
          }

          @Override
          public void checkServerTrusted(X509Certificate[] chain, String type) {
            check.run();
          }

          @Override
          public X509Certificate[] getAcceptedIssuers() {
            return new X509Certificate[0];
          }
        };
    SSLContext context = SSLContext.getInstance("TLSv1.3");
    context.init(keyManagers(), new TrustManager[] {trust}, null);
    return context;
  }

  private KeyManager[] keyManagers() throws Exception {
    char[] none = new char[0];
    KeyStore own = KeyStore.getInstance("PKCS12");
    own.load(null, null);
    own.setKeyEntry("own", keys.getPrivate(), none, new Certificate[] {certificate});
    KeyManagerFactory managers =
        KeyManagerFactory.getInstance(KeyManagerFactory.getDefaultAlgorithm());
    managers.init(own, none);
    return managers.getKeyManagers();
  }

  public SSLContext trusting(Certified... peers) throws Exception {
    KeyStore trusted = KeyStore.getInstance("PKCS12");
    trusted.load(null, null);
    for (int i = 0; i < peers.length; i++) {
      trusted.setCertificateEntry("peer " + i, peers[i].certificate);
    }
    TrustManagerFactory trust =
        TrustManagerFactory.getInstance(TrustManagerFactory.getDefaultAlgorithm());
    trust.init(trusted);
    SSLContext context = SSLContext.getInstance("TLSv1.3");
    context.init(keyManagers(), trust.getTrustManagers(), null);
    return context;
  }
}
