package org.ep4j.conformance;

class HostVectorsOnThreadsTest extends VectorKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected World world() {
    return new ThreadWorld();
  }
}
