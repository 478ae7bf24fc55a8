package clientfile

// AdapterVersion names how files are read and written. It rises when the same steps make other bytes, or when an entry
// is understood in another way: plans and certificates count for one version only.
const AdapterVersion = "1"
