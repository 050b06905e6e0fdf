package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;
import javax.net.ssl.ExtendedSSLSession;
import javax.net.ssl.SSLEngine;
import javax.net.ssl.SSLEngineResult;
import javax.net.ssl.SSLEngineResult.HandshakeStatus;
import javax.net.ssl.SSLException;
import javax.net.ssl.SSLKeyException;

/** TLS on a non-blocking socket. */
final class TlsPipe implements Pipe {
  /** Records per call. */
  private static final int RECORDS = 8;

  /** Label of the exported keying material. */
  private static final String BINDING = "EXPORTER-ep4j-wire-tcp";

  private static final int BINDING_BYTES = 32;
  private static final ByteBuffer NOTHING = ByteBuffer.allocate(0);

  private final SocketChannel channel;
  private final SSLEngine engine;
  // Between calls the pending bytes of all three are from position to limit.
  private final ByteBuffer sealedIn;
  private final ByteBuffer sealedOut;
  private final ByteBuffer opened;
  private boolean ended;

  /** Whether the first handshake is complete; bytes pass during later ones. */
  private boolean connected;

  /** A pipe whose TLS handshake begins with its first use. */
  TlsPipe(SocketChannel channel, SSLEngine engine) {
    this.channel = channel;
    this.engine = engine;
    int record = engine.getSession().getPacketBufferSize();
    sealedIn = ByteBuffer.allocateDirect(RECORDS * record).limit(0);
    sealedOut = ByteBuffer.allocateDirect(RECORDS * record).limit(0);
    opened = ByteBuffer.allocateDirect(2 * engine.getSession().getApplicationBufferSize()).limit(0);
  }

  @Override
  public int read(ByteBuffer target) throws IOException {
    if (!shakenHands()) {
      return ended ? -1 : 0;
    }
    int before = target.position();
    while (target.hasRemaining()) {
      if (opened.hasRemaining()) {
        int bytes = Math.min(opened.remaining(), target.remaining());
        target.put(target.position(), opened, opened.position(), bytes);
        target.position(target.position() + bytes);
        opened.position(opened.position() + bytes);
      } else if (!open()) {
        break;
      }
    }
    int read = target.position() - before;
    return read == 0 && ended ? -1 : read;
  }

  /** Opens the next record; false if none has arrived. */
  private boolean open() throws IOException {
    opened.clear();
    SSLEngineResult result = engine.unwrap(sealedIn, opened);
    opened.flip();
    runTasks();
    return switch (result.getStatus()) {
      case OK -> {
        // The engine may have data to send, for example new keys; without space it keeps them.
        if (engine.getHandshakeStatus() == HandshakeStatus.NEED_WRAP && hasSpace()) {
          seal(NOTHING);
        }
        yield true;
      }
      case BUFFER_UNDERFLOW -> fill();
      case CLOSED -> {
        ended = true;
        yield false;
      }
      default -> throw new IOException("TLS: " + result);
    };
  }

  private boolean fill() throws IOException {
    sealedIn.compact();
    int read = channel.read(sealedIn);
    sealedIn.flip();
    ended |= read < 0;
    return read > 0;
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    if (holdsOutput() || !shakenHands()) {
      return 0;
    }
    int before = source.position();
    while (source.hasRemaining() && !holdsOutput()) {
      seal(source);
    }
    return source.position() - before;
  }

  /** Whether a record fits behind the pending bytes. */
  private boolean hasSpace() {
    return sealedOut.capacity() - sealedOut.remaining()
        >= engine.getSession().getPacketBufferSize();
  }

  /** Seals as much as fits behind the pending bytes, and sends it. */
  private void seal(ByteBuffer source) throws IOException {
    sealedOut.compact();
    int least = engine.getSession().getPacketBufferSize();
    do {
      SSLEngineResult result = engine.wrap(source, sealedOut);
      runTasks();
      if (result.getStatus() == SSLEngineResult.Status.CLOSED) {
        break;
      }
      if (result.getStatus() != SSLEngineResult.Status.OK) {
        sealedOut.flip();
        throw new IOException("TLS: " + result);
      }
    } while (source.hasRemaining() && sealedOut.remaining() >= least);
    sealedOut.flip();
    channel.write(sealedOut);
  }

  /** Advances the TLS handshake. Returns whether bytes may pass. */
  private boolean shakenHands() throws IOException {
    while (true) {
      switch (engine.getHandshakeStatus()) {
        case NEED_TASK -> runTasks();
        case NEED_WRAP -> {
          if (holdsOutput()) {
            // New keys wait behind the output: without reads, two such ends would wait forever.
            return connected;
          }
          seal(NOTHING);
        }
        case NEED_UNWRAP, NEED_UNWRAP_AGAIN -> {
          if (!open()) {
            return false;
          }
        }
        default -> {
          connected = true;
          return true;
        }
      }
    }
  }

  private void runTasks() {
    Runnable task;
    while ((task = engine.getDelegatedTask()) != null) {
      task.run();
    }
  }

  @Override
  public boolean holdsInput() {
    return opened.hasRemaining() || sealedIn.hasRemaining();
  }

  @Override
  public boolean holdsOutput() throws IOException {
    if (sealedOut.hasRemaining()) {
      channel.write(sealedOut);
    }
    return sealedOut.hasRemaining();
  }

  @Override
  public void end() throws IOException {
    engine.closeOutbound();
    seal(NOTHING);
    channel.shutdownOutput();
  }

  @Override
  public SocketChannel channel() {
    return channel;
  }

  @Override
  public byte[] binding() throws SSLException {
    // The JDK's TLS 1.3 exports keying material; the provider of a caller's context may not.
    if (!(engine.getSession() instanceof ExtendedSSLSession session)) {
      throw noKeyingMaterial(new UnsupportedOperationException("no ExtendedSSLSession"));
    }
    try {
      return session.exportKeyingMaterialData(BINDING, null, BINDING_BYTES);
    } catch (SSLKeyException | IllegalStateException | UnsupportedOperationException e) {
      throw noKeyingMaterial(e);
    }
  }

  private static SSLException noKeyingMaterial(Exception cause) {
    return new SSLException(
        "this TLS channel exports no keying material for the proofs of ranks (%s): use an sslContext of the JDK's own provider"
            .formatted(cause.getMessage()),
        cause);
  }
}
