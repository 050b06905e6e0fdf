package org.ep4j.conformance;

class HostEngineOnThreadsTest extends EngineKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
