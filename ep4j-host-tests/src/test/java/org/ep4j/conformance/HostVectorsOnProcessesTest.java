package org.ep4j.conformance;

class HostVectorsOnProcessesTest extends VectorKit {
  @Override
  protected String engine() {
    return "host";
  }

  @Override
  protected World world() {
    return new ProcessWorld();
  }
}
