package org.ep4j.wire.tcp.pipe;

import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.channels.SocketChannel;

/** A plain socket. */
public record PlainPipe(SocketChannel channel) implements Pipe {
  @Override
  public int read(ByteBuffer target) throws IOException {
    return channel.read(target);
  }

  @Override
  public int write(ByteBuffer source) throws IOException {
    return channel.write(source);
  }

  @Override
  public boolean holdsInput() {
    return false;
  }

  @Override
  public boolean holdsOutput() {
    return false;
  }

  @Override
  public void end() throws IOException {
    channel.shutdownOutput();
  }

  @Override
  public byte[] binding() {
    return new byte[32];
  }
}
