/** The oracle of every operation, recorded cases, and safetensors files. */
module org.ep4j.verify {
  requires transitive org.ep4j;
  requires static org.jspecify;

  exports org.ep4j.cases;
  exports org.ep4j.io;
  exports org.ep4j.verify;
}
