package org.ep4j.wire.tcp.pipe;

import java.io.ByteArrayInputStream;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.security.GeneralSecurityException;
import java.security.KeyPair;
import java.security.Signature;
import java.security.cert.CertificateFactory;
import java.security.cert.X509Certificate;

/**
 * A certificate that contains only a public key, in the encoding that TLS requires (X.509 in DER).
 * The {@link Handshake} proves the owner of the key.
 */
final class SelfSigned {
  private static final int INTEGER = 0x02;
  private static final int BITS = 0x03;
  private static final int IDENTIFIER = 0x06;
  private static final int TEXT = 0x0c;
  private static final int TIME = 0x17;
  private static final int SEQUENCE = 0x30;
  private static final int SET = 0x31;
  private static final int VERSION = 0xa0;

  private static final byte[] ECDSA_WITH_SHA256 = {
    0x2a, (byte) 0x86, 0x48, (byte) 0xce, 0x3d, 0x04, 0x03, 0x02
  };
  private static final byte[] COMMON_NAME = {0x55, 0x04, 0x03};

  private SelfSigned() {}

  /** A certificate of an elliptic-curve key. */
  static X509Certificate of(KeyPair keys) throws GeneralSecurityException {
    byte[] algorithm = value(SEQUENCE, value(IDENTIFIER, ECDSA_WITH_SHA256));
    byte[] name =
        value(
            SEQUENCE,
            value(
                SET, value(SEQUENCE, value(IDENTIFIER, COMMON_NAME), value(TEXT, ascii("ep4j")))));
    byte[] body =
        value(
            SEQUENCE,
            value(VERSION, value(INTEGER, new byte[] {2})),
            value(INTEGER, new byte[] {1}),
            algorithm,
            name,
            // The certificate is valid for longer than a wire, because clocks of hosts may differ.
            value(
                SEQUENCE, value(TIME, ascii("000101000000Z")), value(TIME, ascii("491231235959Z"))),
            name,
            keys.getPublic().getEncoded());
    Signature signature = Signature.getInstance("SHA256withECDSA");
    signature.initSign(keys.getPrivate());
    signature.update(body);
    byte[] certificate =
        value(SEQUENCE, body, algorithm, value(BITS, new byte[] {0}, signature.sign()));
    return (X509Certificate)
        CertificateFactory.getInstance("X.509")
            .generateCertificate(new ByteArrayInputStream(certificate));
  }

  private static byte[] ascii(String text) {
    return text.getBytes(StandardCharsets.US_ASCII);
  }

  /** Tag, length, content. */
  private static byte[] value(int tag, byte[]... contents) {
    int length = 0;
    for (byte[] content : contents) {
      length += content.length;
    }
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    out.write(tag);
    if (length < 0x80) {
      out.write(length);
    } else {
      out.write(0x82);
      out.write(length >>> 8);
      out.write(length);
    }
    for (byte[] content : contents) {
      out.writeBytes(content);
    }
    return out.toByteArray();
  }
}
